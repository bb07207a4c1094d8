package secrets

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// keySize is that of the keys in the file and of those derived from them: AES-256.
const keySize = 32

// maxKeyID bounds the ids of keys, in bytes.
const maxKeyID = 64

// Purpose is what a sealed thing is for. Each has a key of its own, derived from the one in the
// file, so that nothing sealed for one can be passed off as another.
type Purpose string

// The purposes.
const (
	Secrets         Purpose = "secret"
	SigningKeys     Purpose = "signing-key"
	BrowserSessions Purpose = "browser-session"
)

func purposes() []Purpose { return []Purpose{Secrets, SigningKeys, BrowserSessions} }

// key is one line of the file. What stood there is not kept: only what was derived from it.
type key struct {
	id    string
	aeads map[Purpose]cipher.AEAD
}

// Format shows the id, whatever the verb.
func (k *key) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, "key "+k.id+" "+Redacted) }

// newKey derives the keys of all purposes (RFC 5869).
func newKey(id string, master []byte) (*key, error) {
	k := &key{id: id, aeads: map[Purpose]cipher.AEAD{}}
	for _, p := range purposes() {
		sub, err := hkdf.Key(sha256.New, master, nil, "holdfast/seal/v1/"+string(p), keySize)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		block, err := aes.NewCipher(sub)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		if k.aeads[p], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
	}
	return k, nil
}

// NewKeyLine returns a key, as a line of a keys file: "id:base64". The id is of the key itself
// unless one is given.
func NewKeyLine(id string) (string, error) {
	master := make([]byte, keySize)
	_, _ = rand.Read(master) // never fails: see crypto/rand
	if id == "" {
		id = idOf(master)
	}
	if err := checkID(id); err != nil {
		return "", err
	}
	return id + ":" + base64.StdEncoding.EncodeToString(master), nil
}

// idOf is the id of a key whose line names none: nobody can tell the key from it.
func idOf(master []byte) string {
	sum := sha256.Sum256(master)
	return hex.EncodeToString(sum[:4])
}

func checkID(id string) error {
	if id == "" || len(id) > maxKeyID {
		return fmt.Errorf("key id has %d characters: want 1 to %d", len(id), maxKeyID)
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return errors.New("key id has other characters than letters, digits, and . _ -")
		}
	}
	return nil
}

// parseKeys reads a keys file: a line for each key, "id:base64 of 32 bytes" or the base64 alone,
// the primary one first. Empty lines and those that begin with # are passed over. Its errors show
// nothing of a line but its number.
func parseKeys(b []byte) ([]*key, error) {
	var keys []*key
	ids := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, text, named := strings.Cut(line, ":")
		if !named {
			text = line
		}
		master, err := decodeKey(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("line %d: want \"id:\" and the base64 of %d bytes: make one with: holdfast secret keygen", n, keySize)
		}
		if !named {
			id = idOf(master)
		}
		if err := checkID(strings.TrimSpace(id)); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		k, err := newKey(strings.TrimSpace(id), master)
		clear(master)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if ids[k.id] {
			return nil, fmt.Errorf("line %d: key id %s is there twice", n, k.id)
		}
		ids[k.id] = true
		keys = append(keys, k)
	}
	if lines.Err() != nil {
		return nil, errors.New("a line is too long")
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it: make one with: holdfast secret keygen")
	}
	return keys, nil
}

func decodeKey(text string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		b, err = base64.RawURLEncoding.Strict().DecodeString(text)
	}
	if err != nil || len(b) != keySize {
		return nil, errors.New("not a key")
	}
	return b, nil
}
