package machine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/holdfast-metal/holdfast/client/internal/atomicfile"
	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// secretBytes is the number of random bytes in a token, as in tokens created by the
// cluster.
const secretBytes = 64

// credentials are the tokens of a machine: the given one, and its own after enrollment. The
// agent generates its own token and registers its SHA-256. So the token leaves the machine
// only as a credential, and a registration can be repeated if its response was lost.
type credentials struct {
	path      string // of the own token; "": the machine does not enroll
	machineID string
	given     rest.Tokens

	mu       sync.Mutex
	own      string // in use
	pending  string // sent with a registration, no response yet
	answered bool   // a server has accepted the enrollment
	used     bool   // a server has accepted the token
	refused  bool   // the own token was refused, and the machine has not registered since
	disabled bool   // the own token was enrolled but refused before its first use, as the next would be
}

// credentialFile is the file with the own token. The machine id detects a disk that was
// copied from another machine.
type credentialFile struct {
	MachineID string `json:"machine_id"`
	Token     string `json:"token"`
	Pending   bool   `json:"pending,omitempty"` // no response yet
}

func newCredentials(path, machineID string, given rest.Tokens) (*credentials, error) {
	c := &credentials{path: path, machineID: machineID, given: given}
	if path == "" {
		return c, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's own token: %w", err)
	}
	var f credentialFile
	switch {
	case json.Unmarshal(b, &f) != nil || f.MachineID != machineID || f.Token == "": // the machine enrolls again
	case f.Pending:
		c.pending = f.Token
	default:
		c.own, c.used = f.Token, true
	}
	return c, nil
}

// Token implements rest.Tokens.
func (c *credentials) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != "" {
		return c.own, nil
	}
	return c.given.Token(ctx)
}

// Refused implements rest.Tokens. If the own token is refused, it was revoked, and the
// machine enrolls with another one. If the given token is refused while a registration is
// unanswered, the own token may be valid: a token for enrollment is short-lived.
func (c *credentials) Refused(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token != c.own {
		if c.given.Refused(token) {
			return true
		}
		c.own, c.answered, c.used = c.pending, false, false
		return c.own != ""
	}
	c.disabled = c.answered && !c.used
	c.own, c.pending, c.refused = "", "", true
	_ = os.Remove(c.path) // if it remains, it is refused again
	given, err := c.given.Token(context.Background())
	return err == nil && given != ""
}

// enrollment returns the SHA-256 of the token to enroll with, in hex, or "" if the machine
// does not enroll.
func (c *credentials) enrollment(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = false
	if c.path == "" || c.own != "" || c.disabled {
		return "", nil
	}
	if given, err := c.given.Token(ctx); err != nil || given == "" {
		return "", nil // no authentication; the registration reports an error
	}
	if c.pending == "" {
		var b [secretBytes]byte
		_, _ = rand.Read(b[:]) // never fails
		secret := base64.RawURLEncoding.EncodeToString(b[:])
		if err := c.write(secret, true); err != nil {
			return "", err
		}
		c.pending = secret
	}
	sum := sha256.Sum256([]byte(c.pending))
	return hex.EncodeToString(sum[:]), nil
}

// enrolled records that a server has accepted the token.
func (c *credentials) enrolled() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == "" {
		return nil
	}
	c.own, c.answered, c.used, c.pending = c.pending, true, false, ""
	return c.write(c.own, false)
}

// lapsed reports whether the machine must register again because its own token was refused.
func (c *credentials) lapsed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// accepted records that a server has accepted the token of a keepalive.
func (c *credentials) accepted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == "" || c.used {
		return
	}
	c.used = true
	if c.pending != "" { // its registration was never answered
		c.pending = ""
		_ = c.write(c.own, false) // if it fails, the next start reads it as pending
	}
}

func (c *credentials) write(secret string, pending bool) error {
	b, err := json.Marshal(credentialFile{MachineID: c.machineID, Token: secret, Pending: pending})
	if err != nil {
		return fmt.Errorf("write the machine's own token: %w", err)
	}
	if err := atomicfile.Write(c.path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the machine's own token: %w", err)
	}
	return nil
}
