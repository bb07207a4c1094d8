package secrets

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// keys returns a keyring from a file with these lines.
func keys(t *testing.T, lines ...string) *Keyring {
	t.Helper()
	k, err := Open(keyFile(t, lines...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keyFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSealAndOpen(t *testing.T) {
	k := keys(t, line("k1", 'a'))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		name := rapid.String().Draw(t, "name")
		version := rapid.Uint64().Draw(t, "version")
		p := rapid.SampledFrom(purposes()).Draw(t, "purpose")
		s, err := k.Seal(p, name, version, plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(plain) > 7 && bytes.Contains(s.GetCiphertext(), plain) {
			t.Error("got the plain text in the ciphertext")
		}
		got, err := k.Open(p, name, version, s)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("Open: got %q, %v, want %q", got, err, plain)
		}
		twin, err := k.Seal(p, name, version, plain)
		if err != nil || bytes.Equal(twin.GetNonce(), s.GetNonce()) {
			t.Errorf("got nonce %x twice, %v", s.GetNonce(), err)
		}
	})
}

// A sealed value opens only for its purpose, name and version.
func TestSealIsBound(t *testing.T) {
	k := keys(t, line("k1", 'a'), line("k2", 'b'))
	s, err := k.Seal(Secrets, "bmc", 3, []byte("correct-horse"))
	if err != nil {
		t.Fatal(err)
	}
	changed := func(f func(*internalv1.Sealed)) *internalv1.Sealed {
		c := proto.CloneOf(s)
		f(c)
		return c
	}
	flip := func(b []byte) { b[len(b)/2] ^= 1 }
	for _, tc := range []struct {
		name    string
		p       Purpose
		what    string
		version uint64
		s       *internalv1.Sealed
		ok      bool
	}{
		{"unchanged", Secrets, "bmc", 3, s, true},
		{"another purpose", SigningKeys, "bmc", 3, s, false},
		{"unknown purpose", "other", "bmc", 3, s, false},
		{"another name", Secrets, "bmd", 3, s, false},
		{"a version before", Secrets, "bmc", 2, s, false},
		{"another key's id", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { s.KeyId = "k2" }), false},
		{"missing key", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { s.KeyId = "k9" }), false},
		{"nonce changed", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { flip(s.Nonce) }), false},
		{"nonce cut", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { s.Nonce = s.Nonce[:11] }), false},
		{"text changed", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { flip(s.Ciphertext) }), false},
		{"text cut", Secrets, "bmc", 3, changed(func(s *internalv1.Sealed) { s.Ciphertext = s.Ciphertext[:5] }), false},
		{"nothing", Secrets, "bmc", 3, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := k.Open(tc.p, tc.what, tc.version, tc.s)
			if (err == nil) != tc.ok || (err == nil && string(got) != "correct-horse") {
				t.Errorf("Open: got %q, %v, want success: %v", got, err, tc.ok)
			}
			if err != nil && strings.Contains(err.Error(), "correct-horse") {
				t.Errorf("got the value in the error: %v", err)
			}
		})
	}
}

func TestWithoutKey(t *testing.T) {
	empty, err := Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := keys(t, line("k1", 'a')).Seal(Secrets, "bmc", 1, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*Keyring{"no file": empty, "nil": nil} {
		if _, err := k.Seal(Secrets, "bmc", 1, nil); !errors.Is(err, ErrNoKey) ||
			!strings.Contains(err.Error(), "--secrets-key-file") {
			t.Errorf("%s: Seal: got %v", name, err)
		}
		var unknown *UnknownKeyError
		if _, err := k.Open(Secrets, "bmc", 1, s); !errors.As(err, &unknown) || unknown.ID != "k1" ||
			!errors.Is(err, ErrNoKey) {
			t.Errorf("%s: Open: got %v", name, err)
		}
		if id, ok := k.Primary(); ok || k.Has("k1") || k.IDs() != nil {
			t.Errorf("%s: got key %q", name, id)
		}
	}
	other := keys(t, line("k2", 'a'))
	var unknown *UnknownKeyError
	if _, err := other.Open(Secrets, "bmc", 1, s); !errors.As(err, &unknown) || errors.Is(err, ErrNoKey) ||
		!strings.Contains(err.Error(), other.File()) {
		t.Errorf("Open with another key: got %v", err)
	}
}
