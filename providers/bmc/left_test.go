package bmc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// dying is the memory of a leader that dies between a login's answer and its note: what it has noted before is there.
type dying struct{ bmc.Memory }

func (d dying) Remember(ctx context.Context, name string, m bmc.Memo) error {
	if m.Session != "" {
		return errors.New("the process is dead")
	}
	return d.Memory.Remember(ctx, name, m)
}

// A leader that is killed after the BMC has made its session, and before the note of it, leaves a session that nobody knows: the next one ends it.
func TestSessionWithoutANote(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.OpenSession("operator")
	c := config()
	redfishOnly(&c)
	first, err := bmc.New(c, bmc.Deps{Credentials: l.acct, Memory: dying{l.mem}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.PowerState(l.ctx, l.m); err != nil {
		t.Fatal(err)
	}
	if n := l.s.Sessions(); n != 2 {
		t.Fatalf("%d sessions, want the operator's and one that nobody has noted", n)
	}
	next := l.p
	for range 3 {
		if s, err := next.PowerState(l.ctx, l.m); err != nil || s != providers.PowerOn {
			t.Fatalf("the next leader: %v, %v", s, err)
		}
	}
	if n := l.s.Sessions(); n != 2 {
		t.Errorf("%d sessions, want the operator's and the next leader's", n)
	}
	l.ok("close", next.Close(l.ctx))
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("%d sessions, want the operator's alone", n)
	}
}
