package fsm_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ticker proposes with a wall clock and a monotonic clock, as a leader of feature level 2
// does.
type ticker struct {
	*fsmtest.Peer
	t      *testing.T
	wall   time.Duration // ahead of the right time
	uptime time.Duration
	right  time.Time
}

func newTicker(t *testing.T) *ticker {
	p := fsmtest.NewPeer()
	k := &ticker{Peer: p, t: t, uptime: time.Second, right: p.View().Now()}
	k.pass(0)
	return k
}

// pass advances the time, and then proposes.
func (k *ticker) pass(d time.Duration, ops ...*internalv1.Command) {
	k.t.Helper()
	k.uptime += d
	k.right = k.right.Add(d)
	if len(ops) == 0 {
		ops = []*internalv1.Command{fsmtest.Command(&internalv1.Beat{})}
	}
	for _, c := range ops {
		c.Time, c.UptimeMs = timestamppb.New(k.right.Add(k.wall)), k.uptime.Milliseconds()
	}
	for _, r := range k.Propose(ops...) {
		if r.Err != nil {
			k.t.Fatal(r.Err)
		}
	}
}

func (k *ticker) off() time.Duration { return k.View().Now().Sub(k.right) }

// lead makes another peer the leader, whose process has run for a while.
func (k *ticker) lead(term uint64, uptime time.Duration) {
	k.Term, k.uptime = term, uptime
	k.pass(0, fsmtest.Command(&internalv1.LeaderEstablished{PeerId: string(rune('a' + term%3)), Term: term}))
}

// TestClockBound checks that one wrong wall clock does not move the record's clock far, and
// that a right one does eventually.
func TestClockBound(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(k *ticker)
		want time.Duration // ahead of the right time
	}{
		{"the right time", func(k *ticker) { k.pass(time.Hour) }, 0},
		{"a year ahead for one command",
			func(k *ticker) { k.wall = 365 * 24 * time.Hour; k.pass(time.Second); k.wall = 0; k.pass(time.Second) }, 0},
		{"many commands at once", func(k *ticker) {
			k.wall = 50 * time.Minute
			for range 1000 {
				k.pass(time.Millisecond)
			}
		}, 0},
		{"a little ahead, then right: half the pace",
			func(k *ticker) { k.wall = 8 * time.Minute; k.pass(time.Second); k.wall = 0; k.pass(4 * time.Minute) },
			6 * time.Minute},
		{"a little ahead, then right for long", func(k *ticker) {
			k.wall = 8 * time.Minute
			k.pass(time.Second)
			k.wall = 0
			for range 20 {
				k.pass(time.Minute)
			}
		}, 0},
		{"another leader that has run for days", func(k *ticker) { k.lead(2, 90*time.Hour); k.pass(time.Minute) }, 0},
		{"an outage of a day, then one leader for a quarter of an hour", func(k *ticker) {
			k.right = k.right.Add(24 * time.Hour)
			k.lead(2, time.Second)
			for range 16 {
				k.pass(time.Minute)
			}
		}, 0},
		{"an outage of a day, and two leaders agree", func(k *ticker) {
			k.right = k.right.Add(24 * time.Hour)
			k.lead(2, time.Second)
			k.pass(time.Second)
			k.lead(3, time.Second)
			k.pass(time.Second)
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newTicker(t)
			tt.do(k)
			if got := k.off(); (got - tt.want).Abs() > time.Second {
				t.Errorf("the record's clock is %v ahead, want %v", got, tt.want)
			}
		})
	}
}

// TestConditionsAfterJump checks that conditions follow polls again as soon as the leader's
// clock is right, even if the record's is ahead.
func TestConditionsAfterJump(t *testing.T) {
	for _, ahead := range []time.Duration{9 * time.Minute, 50 * time.Minute} {
		k := newTicker(t)
		register(t, k.Peer, "m1", ready)
		k.right = k.View().Now()
		look := func(status bool) {
			c := fsmtest.Command(&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m1",
				Conditions: []*holdfastv1.Condition{
					{Type: "BMCReachable", Status: status, Reason: "Look",
						ObservedAt: timestamppb.New(k.right.Add(k.wall + 9*time.Second)),
						FreshUntil: timestamppb.New(k.right.Add(k.wall + 159*time.Second))}}}}})
			k.pass(10*time.Second, c)
		}
		k.wall = ahead
		look(true)
		k.wall = 0
		look(false)
		if c := cond(getMachine(t, k.Peer, "m1"), "BMCReachable"); c.GetStatus() || c.GetUnknown() {
			t.Errorf("%v ahead: the first look after it: got status %v, unknown %v (%s); want false", ahead, c.GetStatus(),
				c.GetUnknown(), c.GetReason())
		}
	}
}

// TestResetClock checks that an operator can set back a clock that jumped, and that time
// continues from there.
func TestResetClock(t *testing.T) {
	k := newTicker(t)
	do(t, k.Peer, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m1"}})
	k.wall = 9 * time.Minute
	k.pass(time.Second)
	k.wall = 0
	reset := fsmtest.Command(&internalv1.ResetClock{To: timestamppb.New(k.right)})
	k.pass(0, reset)
	if got := k.off(); got.Abs() > time.Second {
		t.Errorf("after the reset the record's clock is %v ahead, want 0", got)
	}
	k.pass(time.Minute)
	if got := k.off(); got.Abs() > time.Second {
		t.Errorf("a minute later the record's clock is %v ahead, want 0", got)
	}
	refused(t, k.Peer, &internalv1.ResetClock{}, fsm.InvalidArgument, "INVALID_FIELD")
}
