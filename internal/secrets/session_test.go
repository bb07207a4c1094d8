package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSeal checks that a sealed text is readable on every peer with the same keys, for its use
// and its time only.
func TestSeal(t *testing.T) {
	open := func() *Keyring {
		line, err := NewKeyLine("")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	keys := open()
	start := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	now := start
	clock := func() time.Time { return now }
	peer, other, keyless := NewSessions(keys, clock), NewSessions(keys, clock), NewSessions(nil, clock)
	stranger := NewSessions(open(), clock)
	seal := func(s *Sessions) string {
		text, err := s.Seal("sign-in", []byte("data"), time.Minute)
		if err != nil || strings.ContainsAny(text, " \",;\\") {
			t.Fatalf("got %q, %v, want the value of a cookie", text, err)
		}
		return text
	}
	sealed, plain := seal(peer), seal(keyless)
	flipped := sealed[:len(sealed)-4] + "AAAA"
	for _, tt := range []struct {
		name      string
		at        *Sessions
		use, text string
		later     time.Duration
		want      string // empty: refused
	}{
		{"at another peer", other, "sign-in", sealed, 0, "data"},
		{"expired", other, "sign-in", sealed, time.Minute, ""},
		{"for another use", other, "", sealed, 0, ""},
		{"changed", other, "sign-in", flipped, 0, ""},
		{"cut short", other, "sign-in", sessionPrefix + "AA", 0, ""},
		{"invalid characters", other, "sign-in", sessionPrefix + "?", 0, ""},
		{"not sealed", other, "sign-in", "data", 0, ""},
		{"at a peer with other keys", stranger, "sign-in", sealed, 0, ""},
		{"not encrypted, at a peer with a key", peer, "sign-in", plain, 0, ""},
		{"not encrypted, at a peer without a key", keyless, "sign-in", plain, 0, "data"},
		{"not encrypted and expired", keyless, "sign-in", plain, time.Minute, ""},
		{"at a peer without a key", keyless, "sign-in", sealed, 0, ""},
		{"nothing", peer, "sign-in", "", 0, ""},
	} {
		now = start.Add(tt.later)
		if got, ok := tt.at.Unseal(tt.use, tt.text); string(got) != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %t, want %q", tt.name, got, ok, tt.want)
		}
	}
	now = start
}
