package bmc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// inspect inspects with a short timeout.
func (l *lab) inspect() providers.Facts {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
	defer cancel()
	f, err := l.p.Inspect(ctx, l.m)
	l.ok("inspect", err)
	return f
}

// A BMC that accepts connections and has not answered for long is silent, if the configuration
// allows a restart: after the breaker has opened twice, and not within an hour of the last restart
// by any leader.
func TestSilentBMC(t *testing.T) {
	t.Parallel()
	auto := func(c *bmc.Config) {
		c.Protocol, c.OpenTime, c.RequestTime, c.AutoReset = bmc.Redfish, 30*time.Millisecond, 200*time.Millisecond, true
	}
	l := newLab(t, redfishtest.Config{}, auto)
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
	for i := range 5 {
		if f := l.inspect(); f.BMCSilent {
			t.Fatalf("got silent after %d polls", i+1)
		}
	}
	l.eventually("silent", func() bool { return l.inspect().BMCSilent })
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = false })
	l.ok("reset the BMC", l.p.ResetBMC(l.ctx, op("recover"), l.m))
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
	for _, p := range []*bmc.Provider{l.p, l.provider(auto)} { // the next leader knows the restart too
		l.p = p
		l.eventually("repeated backoffs", func() bool {
			if l.inspect().BMCSilent {
				t.Fatal("got silent within an hour of a restart")
			}
			return bmc.AdviceOf(l.impatient()) == bmc.Intervene
		})
	}
}

// A BMC is not silent without the configuration, nor if connections fail, because a failed network
// resembles many broken BMCs.
func TestBMCIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		auto bool
		away bool // it accepts no connections
	}{{"not allowed", false, false}, {"no connections", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, redfishtest.Config{}, nil)
			web := httptest.NewServer(http.HandlerFunc(l.s.Handler().ServeHTTP))
			t.Cleanup(web.Close)
			l.m = machine("m-2", web.URL)
			l.p = l.provider(func(c *bmc.Config) {
				c.Protocol, c.OpenTime, c.RequestTime, c.AutoReset = bmc.Redfish, 30*time.Millisecond, 200*time.Millisecond, tc.auto
			})
			l.power(providers.PowerOn)
			if tc.away {
				web.CloseClientConnections()
				_ = web.Listener.Close() // connections fail from now on
			} else {
				l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
			}
			l.eventually("advice to reset the BMC", func() bool {
				if l.inspect().BMCSilent {
					t.Fatal("silent")
				}
				return bmc.AdviceOf(l.impatient()) == bmc.Reset
			})
		})
	}
}

// A leader that has never read the machine restarts a BMC that answers only for itself. The service
// reports the same properties of the BMC as the machine would.
func TestBMCWithoutMachineIsRestarted(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) {
		c.Protocol, c.RequestTime = bmc.Redfish,
			200*time.Millisecond
	})
	l.s.Set(func(q *redfishtest.Quirks) { q.HangSystems = true })
	if f := l.inspect(); f.BMCReachable {
		t.Fatalf("got facts %+v, want a BMC that does not answer", f)
	}
	l.ok("reset the BMC", l.p.ResetBMC(l.ctx, op("recover"), l.m))
	if got := l.effects("bmc_reset"); len(got) != 1 {
		t.Errorf("got effects %v, want one restart", got)
	}
	l.power(providers.PowerOn)
}
