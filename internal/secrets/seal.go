package secrets

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// nonceSize is that of AES-GCM.
const nonceSize = 12

// ErrNoKey is that this peer was given no key at all.
var ErrNoKey = errors.New("this peer has no secrets key: start it with --secrets-key-file (holdfast secret keygen makes one)")

// UnknownKeyError is that something is sealed under a key that this peer does not have.
type UnknownKeyError struct {
	ID   string // of the key
	File string // where it was looked for; empty: this peer has no file
}

// Error reports which key is missing, and where it belongs.
func (e *UnknownKeyError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("key %s is not here: %v", e.ID, ErrNoKey)
	}
	return fmt.Sprintf("key %s is not in %s: add its line there (it is read again by itself)", e.ID, e.File)
}

// Unwrap returns ErrNoKey when there is no file.
func (e *UnknownKeyError) Unwrap() error {
	if e.File == "" {
		return ErrNoKey
	}
	return nil
}

// Seal seals a value under the primary key. Only Open with the same purpose, name and version opens
// it again. The error is ErrNoKey when there is no key.
func (k *Keyring) Seal(p Purpose, name string, version uint64, plain []byte) (*internalv1.Sealed, error) {
	primary := k.primary()
	if primary == nil {
		return nil, fmt.Errorf("seal %s %q: %w", p, name, ErrNoKey)
	}
	aead, ok := primary.aeads[p]
	if !ok {
		return nil, fmt.Errorf("seal %s %q: there is no key for that purpose", p, name)
	}
	out := aead.Seal(nil, nil, plain, additional(p, name, version, primary.id)) //nolint:gosec // it makes a random nonce itself, and takes none
	return &internalv1.Sealed{KeyId: primary.id, Nonce: out[:nonceSize], Ciphertext: out[nonceSize:]}, nil
}

// Open returns the value of what was sealed. The error is an *UnknownKeyError when the key is not
// here; a seal that is not of this purpose, name and version, or that somebody has changed, does
// not open.
func (k *Keyring) Open(p Purpose, name string, version uint64, s *internalv1.Sealed) ([]byte, error) {
	key := k.find(s.GetKeyId())
	if key == nil {
		return nil, fmt.Errorf("open %s %q: %w", p, name, &UnknownKeyError{ID: s.GetKeyId(), File: k.File()})
	}
	aead, ok := key.aeads[p]
	if !ok {
		return nil, fmt.Errorf("open %s %q: there is no key for that purpose", p, name)
	}
	if len(s.GetNonce()) != nonceSize {
		return nil, fmt.Errorf("open %s %q: its nonce has %d bytes, not %d", p, name, len(s.GetNonce()), nonceSize)
	}
	sealed := append(append(make([]byte, 0, nonceSize+len(s.GetCiphertext())), s.GetNonce()...), s.GetCiphertext()...)
	plain, err := aead.Open(nil, nil, sealed, additional(p, name, version, key.id))
	if err != nil {
		return nil, fmt.Errorf("open %s %q: the seal of version %d does not fit key %s: it was changed, or another key has that id", p, name, version, key.id)
	}
	return plain, nil
}

// additional is the additional data of a seal: every part with its length, so that no two run
// together.
func additional(p Purpose, name string, version uint64, keyID string) []byte {
	b := []byte("holdfast seal 1")
	for _, part := range []string{string(p), name, keyID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, version)
}
