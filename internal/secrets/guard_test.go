package secrets

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
)

// lead runs a guard on the leader for a time, restarting it after each handover, and returns the
// number of handovers.
func lead(t *testing.T, g *Guard, d time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	given := 0
	for {
		err := g.Run(ctx, leader.NewTerm(1, nil))
		if err == nil {
			return given
		}
		given++
		if !strings.Contains(err.Error(), "k1") || given > 1000 {
			t.Fatalf("handover %d: %v", given, err)
		}
		time.Sleep(time.Second) // sleep: fake clock; another peer leads meanwhile
	}
}

func TestGuard(t *testing.T) {
	p := newPeer(t)
	good, lacks := keyFile(t, line("k1", 'a')), keyFile(t, line("k2", 'b'))
	synctest.Test(t, func(t *testing.T) {
		has, err := Open(good, nil) // created in the bubble, because it has a channel
		if err != nil {
			t.Fatal(err)
		}
		p.put(has, "a", 1, map[string]string{"x": "1"})
		if n := lead(t, NewGuard(p, has, nil), 24*time.Hour); n != 0 {
			t.Errorf("peer with the key: got %d handovers, want 0", n)
		}
		var out bytes.Buffer
		k, err := Open(lacks, nil)
		if err != nil {
			t.Fatal(err)
		}
		g := NewGuard(p, k, slog.New(slog.NewTextHandler(&out, nil)))
		if n := lead(t, g, 5*time.Minute); n != handovers {
			t.Errorf("peer without the key: got %d handovers at once, want %d", n, handovers)
		}
		for _, want := range []string{"leading without a secrets key", "key k1, which is not in " + lacks} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("log: got no %q:\n%s", want, out.String())
			}
		}
		// It continues with handovers at growing intervals, because a peer with the key may appear.
		if n := lead(t, g, 12*time.Hour); n < 5 || n > 12 {
			t.Errorf("next 12 hours: got %d handovers", n)
		}
		if note := g.Note(); !strings.Contains(note, "k1") || !strings.Contains(note, lacks) {
			t.Errorf("got note %q", note)
		}

		// When the key arrives, the peer keeps the leadership, and the count is reset.
		ctx, cancel := context.WithCancel(t.Context())
		reloading := make(chan error)
		go func() { reloading <- k.Run(ctx) }()
		if err := os.WriteFile(lacks, []byte(line("k2", 'b')+"\n"+line("k1", 'a')), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // sleep: fake clock, until the file is read
		if n := lead(t, g, time.Hour); n != 0 {
			t.Errorf("with the key: got %d handovers, want 0", n)
		}
		if note := g.Note(); note != "" {
			t.Errorf("got note %q", note)
		}
		// The key is removed while the peer leads.
		if err := os.WriteFile(lacks, []byte(line("k2", 'b')), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := lead(t, g, time.Minute); n != handovers {
			t.Errorf("without the key again: got %d handovers, want %d", n, handovers)
		}
		cancel()
		if err := <-reloading; err != nil {
			t.Error(err)
		}
	})
}

func TestGuardWithoutFile(t *testing.T) {
	none, err := Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t)
	g := NewGuard(p, none, nil)
	if got := g.Missing(); got != nil {
		t.Errorf("without sealed values: got missing key %v", got)
	}
	p.sign(keys(t, line("k1", 'a')), "s1")
	if got := g.Missing(); len(got) != 1 || got[0] != "k1" {
		t.Errorf("missing key: got %v, want k1", got)
	}
	if err := g.Run(t.Context(), leader.NewTerm(1, nil)); err == nil ||
		!strings.Contains(err.Error(), "no --secrets-key-file") {
		t.Errorf("Run: got %v", err)
	}
}
