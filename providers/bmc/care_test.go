package bmc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// providerWith returns another provider for the same BMC, with its own memory.
func (l *lab) providerWith(memory bmc.Memory, change func(*bmc.Config)) *bmc.Provider {
	l.t.Helper()
	c := config()
	change(&c)
	p, err := bmc.New(c, bmc.Deps{Credentials: l.acct, Memory: memory})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = p.Close(context.WithoutCancel(l.ctx)) })
	return p
}

func TestLightReadsBack(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	for _, on := range []bool{true, false} {
		want := map[bool]providers.LightState{true: providers.LightOn, false: providers.LightOff}[on]
		l.ok("identify", l.p.Identify(l.ctx, op("identify"), l.m, on))
		got, err := l.p.Light(l.ctx, l.m)
		l.ok("read the light", err)
		if got != want {
			t.Errorf("light: got %q, want %q", got, want)
		}
	}
}

func TestEventsAreCleared(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Log("1", "Critical", "Power supply 2 has failed.")
	l.s.Set(func(q *redfishtest.Quirks) { q.OtherLogs = []string{"SL", "AuditLog", "Event", "Dump", "HostLogger"} })
	l.ok("clear", l.p.ClearEvents(l.ctx, op("clear"), l.m, ""))
	all, err := l.p.Events(l.ctx, l.m, "")
	l.ok("events", err)
	if len(all) != 0 {
		t.Errorf("got events %+v, want none", all)
	}
	if diff := cmp.Diff([]string{"clear_log "}, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// Finding the event log takes longer than an effect may wait. Only the time of the clear counts,
// and it is late only if nothing was done.
func TestEventsAreClearedInTime(t *testing.T) {
	t.Parallel()
	in, over := time.Minute, -time.Second
	for _, c := range []struct {
		name    string
		terms   []time.Duration // validity of each confirmation; later ones are refused
		class   providers.Class // empty: success
		effects []string
	}{
		{"in time", []time.Duration{in, in}, "", []string{"clear_log "}},
		{"replaced before", nil, providers.Late, nil},
		{"stopped before", []time.Duration{over}, providers.Late, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) {
				q.ManagerLog, q.TwoLogs, q.Latency = true, true, 40*time.Millisecond
			})
			given := 0
			ctx := providers.WithConfirm(providers.WithNotAfter(l.ctx, time.Now().Add(200*time.Millisecond)),
				func(context.Context) (time.Time, error) {
					if given++; given > len(c.terms) {
						return time.Time{}, errors.New("another peer leads")
					}
					return time.Now().Add(c.terms[given-1]), nil
				})
			err := l.p.ClearEvents(ctx, op("clear"), l.m, "")
			if c.class == "" {
				l.ok("clear", err)
			} else {
				l.class("clear", err, c.class)
			}
			if diff := cmp.Diff(c.effects, l.effects("clear_log")); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// forgetful is a memory whose writes fail while it is broken.
type forgetful struct {
	*bmc.InMemory
	broken bool
}

func (f *forgetful) Remember(ctx context.Context, name string, m bmc.Memo) error {
	if f.broken && !m.ResetAt.IsZero() {
		return errors.New("no quorum")
	}
	return f.InMemory.Remember(ctx, name, m)
}

// A reset is recorded before it happens, so that the next leader does not repeat it.
func TestResetIsRecordedFirst(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	memory := &forgetful{InMemory: bmc.NewInMemory(), broken: true}
	p := l.providerWith(memory, redfishOnly)
	l.class("reset without a record", p.ResetBMC(l.ctx, op("reset"), l.m), providers.Transient)
	at, err := p.BMCResetAt(l.ctx, l.m)
	l.ok("last reset", err)
	if got := l.effects("bmc_reset"); len(got) != 0 || !at.IsZero() {
		t.Errorf("got %d resets, the last one at %v, want none", len(got), at)
	}
	memory.broken = false
	l.ok("reset", p.ResetBMC(l.ctx, op("reset"), l.m))
	other := l.providerWith(memory, redfishOnly) // of the next leader
	at, err = other.BMCResetAt(l.ctx, l.m)
	l.ok("last reset", err)
	if time.Since(at) > time.Minute {
		t.Errorf("last reset at the next leader: got %v", at)
	}
	l.class("reset by the next leader", other.ResetBMC(l.ctx, op("reset"), l.m), providers.Transient)
	if got := l.effects("bmc_reset"); len(got) != 1 {
		t.Errorf("got %d resets, want 1", len(got))
	}
}

// An entry that has vanished since the log was listed, and a log service that cannot be read, cost
// themselves only.
func TestEventsWithGaps(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Log("1", "Critical", "Power supply 2 has failed.")
	l.s.Log("1", "OK", "Power supply 2 is back.")
	log := "/redfish/v1/Systems/1/LogServices"
	l.s.Set(func(q *redfishtest.Quirks) {
		q.OtherLogs = []string{"AuditLog", "Other"}
		q.Missing = []string{log + "/Other", log + "/SEL/Entries/2", log + "/Log1/Entries/2"}
	})
	all, err := l.p.Events(l.ctx, l.m, "")
	l.ok("events", err)
	if len(all) != 2 || all[1].Message != "Power supply 2 is back." {
		t.Errorf("got events %+v, want the two that are left", all)
	}
}
