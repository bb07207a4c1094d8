package rest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Tokens supplies the bearer token of requests. Implementations are safe for concurrent
// use.
type Tokens interface {
	// Token returns the token to send, or "" for none.
	Token(ctx context.Context) (string, error)
	// Refused is called with the token to which a server returned 401. It reports whether
	// Token may return another one now.
	Refused(token string) bool
}

// NewTokens returns the token of a file, which is read on first use, or else a token that never
// changes.
func NewTokens(file, token string) Tokens {
	if file != "" {
		return &fileToken{path: file}
	}
	return StaticToken(token)
}

// StaticToken is a token that never changes.
type StaticToken string

// Token implements Tokens.
func (t StaticToken) Token(context.Context) (string, error) { return string(t), nil }

// Refused implements Tokens.
func (t StaticToken) Refused(string) bool { return false }

// maxTokenFile is far larger than any real token.
const maxTokenFile = 16 << 10

// fileToken reads the token from a file, and again when a server has refused it.
type fileToken struct {
	path string

	mu    sync.Mutex
	token string
}

// Token implements Tokens.
func (t *fileToken) Token(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" {
		return t.token, nil
	}
	token, err := readToken(t.path)
	if err == nil {
		t.token = token
	}
	return token, err
}

// Refused implements Tokens. It reads the file again: a new token is written there before
// the old one is revoked.
func (t *fileToken) Refused(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
	now, err := readToken(t.path)
	return err == nil && now != token
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return "", fmt.Errorf("read the token: %s is empty: write the token into it, nothing else", path)
	case len(token) > maxTokenFile || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("read the token: %s does not contain exactly one token on one line", path)
	}
	return token, nil
}
