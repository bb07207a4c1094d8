package fsm_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ticker proposes with a wall clock and a monotonic clock, as a leader
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
		ops = []*internalv1.Command{fsmtest.Command(&internalv1.NoOp{})}
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

// reading returns the comparison of voters whose clocks are off by so much. The leader's is the
// first.
func (k *ticker) reading(voters int, off ...time.Duration) *internalv1.Command {
	c := &internalv1.CompareClocks{Voters: uint32(voters)}
	for i, d := range off {
		c.Readings = append(c.Readings, &internalv1.ClockReading{PeerId: fmt.Sprint("p", i),
			At: timestamppb.New(k.right.Add(d)), UptimeMs: k.uptime.Milliseconds()})
	}
	return fsmtest.Command(c)
}

func (k *ticker) compare(voters int, off ...time.Duration) {
	k.t.Helper()
	k.pass(0, k.reading(voters, off...))
}

// disagree proposes a comparison that is refused.
func (k *ticker) disagree(voters int, off ...time.Duration) {
	k.t.Helper()
	c := k.reading(voters, off...)
	c.Time, c.UptimeMs = timestamppb.New(k.right.Add(k.wall)), k.uptime.Milliseconds()
	if r := k.Propose(c)[0]; r.Err == nil || r.Err.Reason != fsm.ReasonClocksDiffer {
		k.t.Errorf("clocks that are off by %v: got %v, want CLOCKS_DIFFER", off, r.Err)
	}
}

// TestClockProperty checks that no sequence of leaders and wall clocks moves the record more than
// the limit ahead of the time on which a majority of three clocks agrees.
func TestClockProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := newTicker(t)
		k.compare(3, 0, 0)
		off := rapid.Int64Range(-int64(400*24*time.Hour), int64(400*24*time.Hour))
		term := uint64(1)
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				k.wall = time.Duration(off.Draw(rt, "wall"))
			case 1:
				k.wall += time.Duration(rapid.Int64Range(0, int64(12*time.Minute)).Draw(rt, "creeps"))
			case 2:
				term++
				k.lead(term, time.Duration(rapid.Int64Range(1, 1e6).Draw(rt, "uptime"))*time.Millisecond)
			case 3: // the leader's clock is wrong, the others agree
				k.compare(3, k.wall, 0, time.Second)
			}
			k.pass(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(rt, "passes")))
			if got := k.off(); got > fsm.MaxClockMove+fsm.ClocksAgree {
				rt.Fatalf("the record is %v ahead", got)
			}
		}
	})
}

// TestWrongLeaderDropsNoArchivedRun checks that a run that is to be kept for 300 days stays in the
// archive while a peer leads that is a year ahead.
func TestWrongLeaderDropsNoArchivedRun(t *testing.T) {
	p, run := running(t)
	finish(t, p, run, succeeded)
	sum := sha256.Sum256([]byte("the object"))
	do(t, p, &internalv1.ArchiveRun{RunId: run, Revision: getRun(t, p, run).GetRevision(), Object: "runs/x",
		SizeBytes: 10, Sha256: sum[:]})
	k := &ticker{Peer: p, t: t, uptime: time.Second, right: p.View().Now()}
	k.wall = 365 * 24 * time.Hour
	for term := range uint64(3) {
		k.lead(8+term, time.Second)
		for range 3 {
			c := fsmtest.Command(&internalv1.DropArchivedRun{RunId: run, KeepMs: (300 * 24 * time.Hour).Milliseconds()})
			c.Time, c.UptimeMs = timestamppb.New(k.right.Add(k.wall)), k.uptime.Milliseconds()
			if r := k.Propose(c)[0]; r.Err == nil {
				t.Fatal("the run is dropped from the archive")
			}
		}
	}
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
		{"an outage of a day, and one leader for an hour", func(k *ticker) {
			k.right = k.right.Add(24 * time.Hour)
			k.lead(2, time.Second)
			for range 60 {
				k.pass(time.Minute)
			}
		}, -24 * time.Hour},
		{"an outage of a day, and a majority agrees", func(k *ticker) {
			k.right = k.right.Add(24 * time.Hour)
			k.lead(2, time.Second)
			k.compare(3, 0, 0)
		}, 0},
		{"an outage of a day, and the leader alone is right", func(k *ticker) {
			k.compare(3, 0, 0)
			k.right = k.right.Add(24 * time.Hour)
			k.lead(2, time.Second)
			k.disagree(3, 0, -24*time.Hour, time.Hour)
		}, -24 * time.Hour},
		{"a new leader that is a year ahead", func(k *ticker) {
			k.compare(3, 0, 0)
			k.wall = 365 * 24 * time.Hour
			k.lead(3, time.Second)
			k.pass(time.Second)
		}, 0},
		{"two leaders in turn that are a year ahead", func(k *ticker) {
			k.compare(3, 0, 0)
			k.wall = 365 * 24 * time.Hour
			for term := range uint64(8) {
				k.lead(3+term, time.Second)
				k.pass(time.Second)
			}
		}, 0},
		{"the only voter's clock creeps", func(k *ticker) {
			k.compare(1, 0)
			for range 100 {
				k.wall += 9 * time.Minute
				k.pass(5 * time.Second)
				k.compare(1, k.wall)
			}
		}, 9 * time.Minute},
		{"the only voter's clock is a little ahead for long", func(k *ticker) {
			k.compare(1, 0)
			for range 3 {
				k.wall += 9 * time.Minute
				for range 20 {
					k.pass(time.Minute)
					k.compare(1, k.wall)
				}
			}
		}, 27 * time.Minute},
		{"a clock that creeps", func(k *ticker) {
			k.compare(3, 0, 0)
			for range 1000 {
				k.wall += 9 * time.Minute
				k.pass(10 * time.Millisecond)
			}
		}, 9 * time.Minute},
		{"a leader that is a year ahead among right clocks", func(k *ticker) {
			k.compare(3, 0, 0)
			k.wall = 365 * 24 * time.Hour
			k.lead(3, time.Second)
			k.compare(3, k.wall, 0, 0)
			for range 100 {
				k.pass(time.Minute)
				k.compare(3, k.wall, 0, 0)
			}
		}, 0},
		{"the first comparison of a new cluster sets it back", func(k *ticker) {
			k.right = k.right.Add(-time.Hour)
			k.compare(3, 0, 0)
		}, 0},
		{"a cluster of one after a night, for a minute", func(k *ticker) {
			k.compare(1, 0)
			k.right = k.right.Add(8 * time.Hour)
			k.lead(2, time.Second)
			k.compare(1, 0)
			k.pass(time.Minute)
			k.compare(1, 0)
		}, -8 * time.Hour},
		{"a cluster of one after a night, for a quarter of an hour", func(k *ticker) {
			k.compare(1, 0)
			k.right = k.right.Add(8 * time.Hour)
			k.lead(2, time.Second)
			for range 17 {
				k.pass(time.Minute)
				k.compare(1, 0)
			}
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
		poll := func(status bool) {
			c := fsmtest.Command(&internalv1.ObserveConditions{Machines: []*internalv1.MachineConditions{{MachineId: "m1",
				Conditions: []*holdfastv1.Condition{
					{Type: "BMCReachable", Status: status, Reason: "Poll",
						ObservedAt: timestamppb.New(k.right.Add(k.wall + 9*time.Second)),
						FreshUntil: timestamppb.New(k.right.Add(k.wall + 159*time.Second))}}}}})
			k.pass(10*time.Second, c)
		}
		k.wall = ahead
		poll(true)
		k.wall = 0
		poll(false)
		if c := cond(getMachine(t, k.Peer, "m1"), "BMCReachable"); c.GetStatus() || c.GetUnknown() {
			t.Errorf("%v ahead: the first poll after it: got status %v, unknown %v (%s); want false", ahead, c.GetStatus(),
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
