package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// tokenBytes is the length of a token before base64url encoding (docs/clients.md, 000).
const tokenBytes = 64

// NewToken returns a new bearer token and its SHA-256 hash. Only the hash is stored.
func NewToken() (token string, hash []byte) {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	token = base64.RawURLEncoding.EncodeToString(b)
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}
