package secrets

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
)

func TestResolve(t *testing.T) {
	p := newPeer(t)
	k := keys(t, line("k1", 'a'))
	want := map[string]string{"username": "root", "password": "correct-horse", "empty": ""}
	p.put(k, "bmc/r7", 1, map[string]string{"password": "old"})
	p.put(k, "bmc/r7", 2, want)
	r := NewResolver(p, k)
	s, err := r.Resolve(t.Context(), "bmc/r7")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, v := range s.Values {
		got[key] = v.Reveal()
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Name != "bmc/r7" || s.Type != "opaque" || s.Version != 2 {
		t.Errorf("secret %s %s %d (-want +got):\n%s", s.Name, s.Type, s.Version, diff)
	}

	var refusal *fsm.Error
	if _, err := r.Resolve(t.Context(), "none"); !errors.As(err, &refusal) || refusal.Code != fsm.NotFound ||
		!strings.Contains(err.Error(), "holdfast secret put none") {
		t.Errorf("unknown name: got %v", err)
	}
	var unknown *UnknownKeyError
	if _, err := NewResolver(p, keys(t, line("k2", 'b'))).Resolve(t.Context(), "bmc/r7"); !errors.As(err, &unknown) ||
		unknown.ID != "k1" {
		t.Errorf("without the key: got %v", err)
	}
	if _, err := NewResolver(p, keys(t, line("k1", 'b'))).Resolve(t.Context(), "bmc/r7"); err == nil ||
		strings.Contains(err.Error(), "correct-horse") {
		t.Errorf("another key with that id: got %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(gone, "bmc/r7"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// Exchanged sealed records in the state do not reveal values.
func TestExchangedRecords(t *testing.T) {
	p := newPeer(t)
	k := keys(t, line("k1", 'a'))
	p.put(k, "a", 1, map[string]string{"x": "1"})
	p.put(k, "b", 1, map[string]string{"x": "2"})
	other := p.stored("a")
	other.Sealed = p.stored("b").GetSealed()
	if _, err := k.Get(other); err == nil {
		t.Error("open the values of another secret: got no error")
	}
	later := p.stored("a")
	later.Secret.Version = 2
	if _, err := k.Get(later); err == nil {
		t.Error("open another version: got no error")
	}
}

func TestReseal(t *testing.T) {
	p := newPeer(t)
	path := keyFile(t, line("k1", 'a'))
	k, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.put(k, "a", 1, map[string]string{"x": "1"})
	old := p.sign(k, "s1")
	if err := os.WriteFile(path, []byte(line("k2", 'b')+"\n"+line("k1", 'a')), 0o600); err != nil {
		t.Fatal(err)
	}
	k.reload(0)

	s, err := k.Reseal(p.stored("a"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := k.ResealKey(old)
	if err != nil {
		t.Fatal(err)
	}
	if s.GetSealed().GetKeyId() != "k2" || s.GetSecret().GetKeyId() != "k2" || key.GetSealed().GetKeyId() != "k2" {
		t.Errorf("got keys %s and %s, want k2", s.GetSealed().GetKeyId(), key.GetSealed().GetKeyId())
	}
	only := keys(t, line("k2", 'b'))
	values, err := only.Get(s)
	if err != nil || values["x"].Reveal() != "1" {
		t.Errorf("Get: got %v, %v", values, err)
	}
	plain, err := only.Open(SigningKeys, "s1", 0, key.GetSealed())
	if err != nil || string(plain) != "pkcs8" {
		t.Errorf("Open: got %q, %v", plain, err)
	}
	if _, err := only.Reseal(p.stored("a")); err == nil {
		t.Error("reseal without the old key: got no error")
	}
	if _, err := only.ResealKey(old); err == nil {
		t.Error("reseal a signing key without the old key: got no error")
	}
}
