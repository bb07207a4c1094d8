package bmc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// dying is the memory of a leader that dies between the answer to a login and its note. Earlier
// notes exist.
type dying struct{ bmc.Memory }

func (d dying) Remember(ctx context.Context, name string, m bmc.Memo) error {
	if m.Session != "" {
		return errors.New("process is dead")
	}
	return d.Memory.Remember(ctx, name, m)
}

// A leader that is killed after the BMC has created its session, and before the note of it, leaves
// an unknown session. The next leader ends it.
func TestSessionWithoutNote(t *testing.T) {
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
		t.Fatalf("got %d sessions, want the operator's and one without a note", n)
	}
	next := l.p
	for range 3 {
		if s, err := next.PowerState(l.ctx, l.m); err != nil || s != providers.PowerOn {
			t.Fatalf("next leader: got %v, %v", s, err)
		}
	}
	if n := l.s.Sessions(); n != 2 {
		t.Errorf("got %d sessions, want the operator's and the next leader's", n)
	}
	l.ok("close", next.Close(l.ctx))
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("got %d sessions, want only the operator's", n)
	}
}

// killed is the memory of a leader that dies right after the note of its session: later requests
// and notes of it are lost.
type killed struct {
	bmc.Memory
	s    *redfishtest.Service
	dead bool
}

func (k *killed) Remember(ctx context.Context, name string, m bmc.Memo) error {
	if k.dead {
		return errors.New("process is dead")
	}
	was, err := k.Recall(ctx, name)
	if err != nil {
		return err
	}
	if err := k.Memory.Remember(ctx, name, m); err != nil || m.Session == was.Session {
		return err
	}
	k.dead = true
	k.s.Set(func(q *redfishtest.Quirks) { q.KeepSessions = 1 })
	return nil
}

// A session of a former leader is ended even if the BMC does not serve the first request for that,
// or the next leader dies before it sends it.
func TestFormerSessionIsEnded(t *testing.T) {
	t.Parallel()
	idle := func(c *bmc.Config) { redfishOnly(c); c.Idle = 20 * time.Millisecond }
	for name, tt := range map[string]struct {
		between func(l *lab) // after the kill of the first leader
		end     func(l *lab, p *bmc.Provider)
		want    int // number of sessions before the end
	}{
		"busy BMC, stopped leader": {
			func(l *lab) { l.s.Set(func(q *redfishtest.Quirks) { q.KeepSessions = 1 }) },
			func(l *lab, p *bmc.Provider) { l.ok("close", p.Close(l.ctx)) }, 2,
		},
		"busy BMC, unused session": {
			func(l *lab) { l.s.Set(func(q *redfishtest.Quirks) { q.KeepSessions = 1 }) },
			func(l *lab, p *bmc.Provider) {
				ctx, cancel := context.WithCancel(l.ctx)
				ran := make(chan error, 1)
				go func() { ran <- p.Run(ctx) }()
				l.eventually("no session", func() bool { return l.s.Sessions() == 0 })
				cancel()
				l.ok("run", <-ran)
			}, 2,
		},
		"a leader dies before it ends that of the first": {
			func(l *lab) {
				c := config()
				idle(&c)
				p, err := bmc.New(c, bmc.Deps{Credentials: l.acct, Memory: &killed{Memory: l.mem, s: l.s}})
				l.ok("make the second leader's", err)
				_, err = p.PowerState(l.ctx, l.m)
				l.ok("the second leader", err)
			},
			func(l *lab, p *bmc.Provider) { l.ok("close", p.Close(l.ctx)) }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, idle)
			l.power(providers.PowerOn) // and now the leader is killed
			tt.between(l)
			next := l.provider(idle)
			_, err := next.PowerState(l.ctx, l.m)
			l.ok("the next leader", err)
			if n := l.s.Sessions(); n != tt.want {
				t.Errorf("got %d sessions, want %d", n, tt.want)
			}
			tt.end(l, next)
			if n := l.s.Sessions(); n != 0 {
				t.Errorf("got %d remaining sessions, want 0", n)
			}
		})
	}
}

// leadAgain makes the lab's provider that of a peer that leads again. A busy BMC has kept its
// session of the first term, and that of the leader in between, which was killed.
func (l *lab) leadAgain() {
	l.t.Helper()
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.KeepSessions = 3 })
	if err := l.p.Release(l.ctx); err == nil {
		l.t.Fatal("got an ended session, although the BMC was busy")
	}
	_, err := l.provider(redfishOnly).PowerState(l.ctx, l.m)
	l.ok("the leader in between", err)
	l.s.Set(func(q *redfishtest.Quirks) { q.KeepSessions = 0 })
	l.p.Recall()
}

// A peer that could not end its session at the end of its term, and leads again, continues with it.
// It also ends that of the leader in between, and if it is killed, the leader after it does.
func TestReelectedLeaderWithOldSession(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"peer stops": false, "peer is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.leadAgain()
			l.power(providers.PowerOn)
			last := l.p
			if dies {
				last = l.provider(redfishOnly)
				_, err := last.PowerState(l.ctx, l.m)
				l.ok("the last leader", err)
				if n := l.s.Sessions(); n != 1 {
					t.Errorf("got %d sessions, want only that of the last leader", n)
				}
			}
			l.ok("close", last.Close(l.ctx))
			if n := l.s.Sessions(); n != 0 {
				t.Errorf("got %d remaining sessions, want 0", n)
			}
		})
	}
}

// A peer that leads again ends its old session before it has read the notes of the leader in
// between, and must not replace them.
func TestOldSessionEndsInANewTerm(t *testing.T) {
	t.Parallel()
	idle := func(c *bmc.Config) { redfishOnly(c); c.Idle = 20 * time.Millisecond }
	l := newLab(t, redfishtest.Config{}, idle)
	l.leadAgain()
	ctx, cancel := context.WithCancel(l.ctx)
	ran := make(chan error, 1)
	go func() { ran <- l.p.Run(ctx) }()
	l.eventually("the end of the old session", func() bool { return l.s.Sessions() == 1 })
	cancel() // it is killed
	l.ok("run", <-ran)
	last := l.provider(redfishOnly)
	_, err := last.PowerState(l.ctx, l.m)
	l.ok("the last leader", err)
	l.ok("close", last.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("got %d remaining sessions, want 0", n)
	}
}
