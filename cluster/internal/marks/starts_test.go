package marks

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// unreachable returns peers that do not answer.
func unreachable() Others {
	return Others{Peers: func() []string { return []string{"q", "r"} },
		Meet: func(context.Context, string, *internalv1.Greeting) (*internalv1.Greeting, error) { return nil, errDisk }}
}

// TestFailedStarts starts a peer more often than a directory has marks, without meeting another
// one: a current directory stays accepted, and one that was put back stays recognized.
func TestFailedStarts(t *testing.T) {
	for name, fail := range map[string]func(*Keeper) error{
		"start fails":            func(*Keeper) error { return nil },
		"runs for a minute":      func(k *Keeper) error { return k.renew() },
		"runs, and is stopped":   func(k *Keeper) error { return errors.Join(k.renew(), k.renew(), k.Stop()) },
		"others are unreachable": func(k *Keeper) error { k.meetAll(t.Context(), unreachable()); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			p, of := newDisk("p"), newDisk("q")
			q := must(t, of, "q")
			var old disk
			for range 3 {
				old = *p
				if err := q.Meet(must(t, p, "p").Greeting()); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 * kept {
				for _, d := range []*disk{p, &old} {
					if err := fail(must(t, d, "p")); err != nil {
						t.Fatal(err)
					}
				}
			}
			other := *of // before it has met the current directory
			k, copied := must(t, p, "p"), must(t, &old, "p")
			if err := errors.Join(k.Meet(q.Greeting()), q.Meet(k.Greeting())); err != nil || !p.id.Admitted {
				t.Errorf("the current directory: got %v, may vote: %t", err, p.id.Admitted)
			}
			q = must(t, &other, "q")
			if err := q.Meet(copied.Greeting()); err == nil {
				t.Error("the old directory: another peer accepts it")
			}
			if err := copied.Meet(q.Greeting()); !errors.Is(err, ErrStale) || old.id.Admitted {
				t.Errorf("the old directory: got %v, may vote: %t", err, old.id.Admitted)
			}
		})
	}
}
