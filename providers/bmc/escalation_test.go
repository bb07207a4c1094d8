package bmc_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// impatient makes one operation with a short timeout.
func (l *lab) impatient() error {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := l.p.PowerState(ctx, l.m)
	return err
}

// A hanging BMC is backed off from, probed occasionally, and used again when it answers.
func TestSilentBMCBackoff(t *testing.T) {
	t.Parallel()
	// A busy machine finishes the following in that time.
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) { c.Protocol, c.OpenTime = bmc.Redfish, 3*time.Second })
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.HangAfter = 3 })
	l.eventually("the backoff", func() bool { return bmc.AdviceOf(l.impatient()) == bmc.Wait })
	served, same := l.s.Served(), 0
	l.eventually("earlier requests to arrive", func() bool {
		if n := l.s.Served(); n != served {
			served, same = n, 0
		}
		same++
		return same > 20
	})
	for range 20 {
		err := l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff)
		if providers.ClassOf(err) != providers.Transient || bmc.AdviceOf(err) == "" {
			t.Fatalf("got %v, want a temporary refusal", err)
		}
	}
	if n := l.s.Served(); n != served {
		t.Errorf("got %d requests during the backoff, want 0", n-served)
	}
	next := l.provider(redfishOnly) // starts with the backoff
	if _, err := next.PowerState(l.ctx, l.m); bmc.AdviceOf(err) != bmc.Wait {
		t.Errorf("the next leader: got %v, want a temporary refusal", err)
	}
	f, err := l.p.Inspect(l.ctx, l.m)
	l.ok("inspect", err)
	if f.BMCReachable || f.BMCReason != "BreakerOpen" {
		t.Errorf("got facts %+v, want BreakerOpen", f)
	}
	l.s.Set(func(q *redfishtest.Quirks) { q.HangAfter = 0 })
	l.power(providers.PowerOn)
	if got := l.effects(""); got != nil {
		t.Errorf("got effects %v, want none", got)
	}
}

// Failed probes escalate: first the advice to reset the BMC, then, after a reset, to call an
// operator.
func TestEscalation(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) {
		c.Protocol, c.OpenTime, c.RequestTime = bmc.Redfish, 30*time.Millisecond, 5*time.Second
	})
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
	l.eventually("advice to reset the BMC", func() bool { return bmc.AdviceOf(l.impatient()) == bmc.Reset })
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = false })
	l.ok("reset the BMC", l.p.ResetBMC(l.ctx, op("recover"), l.m))
	l.power(providers.PowerOn) // opens a new session
	err := l.p.ResetBMC(l.ctx, op("recover"), l.m)
	l.class("again", err, providers.Transient)
	if bmc.AdviceOf(err) != bmc.Intervene {
		t.Errorf("got %v, want advice to intervene", err)
	}
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
	l.eventually("advice to intervene", func() bool { return bmc.AdviceOf(l.impatient()) == bmc.Intervene })
	if got := l.effects("bmc_reset"); len(got) != 1 {
		t.Errorf("got %d resets of the BMC, want 1", len(got))
	}
}

func TestNoResetWhilePressMayBeInFlight(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{PowerTime: 50 * time.Millisecond},
		func(c *bmc.Config) { c.Protocol, c.Settle = bmc.Redfish, 3*time.Second })
	l.ok("off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff))
	l.class("reset the BMC", l.p.ResetBMC(l.ctx, op("recover"), l.m), providers.Transient)
	l.eventually("reset the BMC", func() bool { return l.p.ResetBMC(l.ctx, op("recover"), l.m) == nil })
	if got := l.effects(""); len(got) != 2 {
		t.Errorf("got effects %v, want a press and a reset", got)
	}
}
