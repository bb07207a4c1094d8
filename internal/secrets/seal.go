package secrets

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// nonceSize is the size of a nonce of AES-GCM.
const nonceSize = 12

// ErrNoKey is returned if this peer has no secrets key.
var ErrNoKey = errors.New(
	"this peer has no secrets key: start it with --secrets-key-file (holdfast secret keygen makes one)")

// UnknownKeyError is returned if a value is sealed under a key that this peer does not
// have.
type UnknownKeyError struct {
	ID   string // id of the key
	File string // the file that lacks the key, or "" if there is no file
}

// Error names the missing key and the file to add it to.
func (e *UnknownKeyError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("key %s is missing: %v", e.ID, ErrNoKey)
	}
	return fmt.Sprintf("key %s is not in %s: add its line (the file is reloaded automatically)", e.ID, e.File)
}

// Unwrap returns ErrNoKey if there is no file.
func (e *UnknownKeyError) Unwrap() error {
	if e.File == "" {
		return ErrNoKey
	}
	return nil
}

// Seal encrypts a value under the primary key. Open needs the same purpose, name and
// version. The error is ErrNoKey if there is no key.
func (k *Keyring) Seal(p Purpose, name string, version uint64, plain []byte) (*internalv1.Sealed, error) {
	primary := k.primary()
	if primary == nil {
		return nil, fmt.Errorf("seal %s %q: %w", p, name, ErrNoKey)
	}
	aead, ok := primary.aeads[p]
	if !ok {
		return nil, fmt.Errorf("seal %s %q: unknown purpose", p, name)
	}
	//nolint:gosec // the AEAD generates a random nonce and does not accept one
	out := aead.Seal(nil, nil, plain, additional(p, name, version, primary.id))
	return &internalv1.Sealed{KeyId: primary.id, Nonce: out[:nonceSize], Ciphertext: out[nonceSize:]}, nil
}

// Open decrypts a sealed value. The error is an *UnknownKeyError if the key is missing.
// Open also fails if the purpose, name or version differs, or if the sealed value was
// modified.
func (k *Keyring) Open(p Purpose, name string, version uint64, s *internalv1.Sealed) ([]byte, error) {
	key := k.find(s.GetKeyId())
	if key == nil {
		return nil, fmt.Errorf("open %s %q: %w", p, name, &UnknownKeyError{ID: s.GetKeyId(), File: k.File()})
	}
	aead, ok := key.aeads[p]
	if !ok {
		return nil, fmt.Errorf("open %s %q: unknown purpose", p, name)
	}
	if len(s.GetNonce()) != nonceSize {
		return nil, fmt.Errorf("open %s %q: the nonce has %d bytes, not %d", p, name, len(s.GetNonce()), nonceSize)
	}
	sealed := append(append(make([]byte, 0, nonceSize+len(s.GetCiphertext())), s.GetNonce()...), s.GetCiphertext()...)
	plain, err := aead.Open(nil, nil, sealed, additional(p, name, version, key.id))
	if err != nil {
		return nil, fmt.Errorf("open %s %q: version %d cannot be decrypted with key %s: "+
			"it was modified, or another key has that id", p, name, version, key.id)
	}
	return plain, nil
}

// additional returns the additional data of a sealed value. Each part is preceded by its
// length, so that the encoding is unambiguous.
func additional(p Purpose, name string, version uint64, keyID string) []byte {
	b := []byte("holdfast seal 1")
	for _, part := range []string{string(p), name, keyID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint64(b, version)
}
