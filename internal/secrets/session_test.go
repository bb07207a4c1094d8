package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSessions(t *testing.T) {
	open := func() *Keyring {
		line, err := NewKeyLine("")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	now := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	keys := open()
	peer, other, stranger := NewSessions(keys, clock), NewSessions(keys, clock), NewSessions(open(), clock)
	session, err := peer.Begin("secret-token", time.Hour)
	if err != nil || strings.Contains(session, "secret-token") || strings.ContainsAny(session, " \",;\\") {
		t.Fatalf("got %q, %v, want a session without the token in it", session, err)
	}
	flipped := session[:len(session)-4] + "AAAA"
	for _, tt := range []struct {
		name    string
		at      *Sessions
		session string
		later   time.Duration
		want    string // empty: refused
	}{
		{"at the peer that began it", peer, session, 0, "secret-token"},
		{"at another peer", other, session, time.Hour - time.Second, "secret-token"},
		{"expired", peer, session, time.Hour, ""},
		{"at a peer with other keys", stranger, session, 0, ""},
		{"at a peer without a key", NewSessions(nil, clock), session, 0, ""},
		{"changed", peer, flipped, 0, ""},
		{"cut short", peer, sessionPrefix + "AA", 0, ""},
		{"invalid characters", peer, sessionPrefix + "?", 0, ""},
		{"a token", peer, "secret-token", 0, "secret-token"},
	} {
		now = time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC).Add(tt.later)
		if got, ok := tt.at.Token(tt.session); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %t, want %q", tt.name, got, ok, tt.want)
		}
	}
	if got, err := NewSessions(nil, clock).Begin("secret-token", time.Hour); got != "secret-token" || err != nil {
		t.Errorf("without a key: got %q, %v, want the token", got, err)
	}
}

// TestSeal checks that a sealed text is readable on every peer with the same keys, for its use
// and its time only.
func TestSeal(t *testing.T) {
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
	start := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	now := start
	clock := func() time.Time { return now }
	peer, other, keyless := NewSessions(keys, clock), NewSessions(keys, clock), NewSessions(nil, clock)
	seal := func(s *Sessions) string {
		text, err := s.Seal("sign-in", []byte("data"), time.Minute)
		if err != nil || strings.ContainsAny(text, " \",;\\") {
			t.Fatalf("got %q, %v, want the value of a cookie", text, err)
		}
		return text
	}
	sealed, plain := seal(peer), seal(keyless)
	session, err := peer.Begin("data", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
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
		{"a session", other, "sign-in", session, 0, ""},
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
	if token, ok := peer.Token(sealed); ok {
		t.Errorf("a sealed text as a session: got %q, want it refused", token)
	}
}
