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

// keySize is the size of the keys in the file and of the derived keys: AES-256.
const keySize = 32

// maxKeyID bounds the length of key ids, in bytes.
const maxKeyID = 64

// Purpose is the purpose of a sealed value. Each purpose has its own key, derived from the
// one in the file. A value sealed for one purpose therefore cannot be used for another.
type Purpose string

// The purposes.
const (
	Secrets         Purpose = "secret"
	SigningKeys     Purpose = "signing-key"
	BrowserSessions Purpose = "browser-session"
)

func purposes() []Purpose { return []Purpose{Secrets, SigningKeys, BrowserSessions} }

// key is one key of the file. Only the derived keys are kept, not the key itself.
type key struct {
	id    string
	aeads map[Purpose]cipher.AEAD
}

// Format writes the id for every verb.
func (k *key) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, "key "+k.id+" "+Redacted) }

// newKey derives the keys for all purposes (RFC 5869).
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

// NewKeyLine returns a new random key as a line of a keys file: "id:base64". If id is
// empty, it is derived from the key.
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

// idOf returns the id of a key that has none in the file. It does not reveal the key.
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
			return errors.New("key id has characters other than letters, digits and . _ -")
		}
	}
	return nil
}

// parseKeys parses a keys file. Each line is "id:base64 of 32 bytes" or only the base64;
// the first key is the primary one. Empty lines and lines that begin with # are ignored.
// Errors contain only the number of a line, never its text.
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
			return nil, fmt.Errorf(
				"line %d: want \"id:\" and the base64 of %d bytes: create one with: holdfast secret keygen",
				n, keySize)
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
			return nil, fmt.Errorf("line %d: duplicate key id %s", n, k.id)
		}
		ids[k.id] = true
		keys = append(keys, k)
	}
	if lines.Err() != nil {
		return nil, errors.New("a line is too long")
	}
	if len(keys) == 0 {
		return nil, errors.New("it contains no key: create one with: holdfast secret keygen")
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
