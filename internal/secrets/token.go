package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// TokenBytes is the length of a token before base64url encoding (docs/clients.md, 000).
const TokenBytes = 64

// NewToken returns a new bearer token and its SHA-256 hash. Only the hash is stored.
func NewToken() (token string, hash []byte) {
	b := make([]byte, TokenBytes)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return TokenOf(b)
}

// TokenOf returns the bearer token of TokenBytes secret bytes, and its SHA-256 hash.
func TokenOf(b []byte) (token string, hash []byte) {
	token = base64.RawURLEncoding.EncodeToString(b)
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}
