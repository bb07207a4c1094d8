package rest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	tok := NewTokens(path, "")
	if got, err := tok.Token(t.Context()); err == nil {
		t.Fatalf("Token without a file: got %q, want an error", got)
	}
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want string) {
		t.Helper()
		if got, err := tok.Token(t.Context()); got != want || err != nil {
			t.Fatalf("Token: got %q, %v, want %q", got, err, want)
		}
	}
	write("first\n")
	read("first")
	if tok.Refused("first") {
		t.Error("Refused: got another token, but the file is unchanged")
	}
	write("  second \n")
	read("second")
	write("third")
	read("second") // not refused
	if !tok.Refused("second") {
		t.Error("Refused: got no other token, but the file has changed")
	}
	read("third")
	if !tok.Refused("first") {
		t.Error("Refused of an older token: got no other token, want the next one")
	}
	read("third")
}

func TestFileTokenRefusesInvalidTokens(t *testing.T) {
	for _, text := range []string{"", " \n", "two words", "two\nlines", "null\x00", strings.Repeat("x", maxTokenFile+1)} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := NewTokens(path, "").Token(t.Context())
		if err == nil {
			t.Errorf("Token of %.20q: got %.20q, want an error", text, got)
		} else if s := strings.TrimSpace(text); s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("got the contents of the file in the error: %v", err)
		}
	}
}
