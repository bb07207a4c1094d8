//go:build linux

package bmclab

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// crowd lets many callers read and press at once.
func crowd(t *testing.T, p *bmc.Provider, m providers.Machine, callers, calls int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range calls {
				if i%3 == 0 {
					if err := p.SetPower(t.Context(), providers.Op{}, m, providers.ActionOn); err != nil {
						t.Error(err)
					}
				} else if _, err := p.PowerState(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// What a BMC over IPMI sees of a crowd: the pause between commands that it needs, or at most two
// readers and one writer.
func TestGentleOverIPMI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		gap  time.Duration
		most int
	}{{"WithAPause", 300 * time.Millisecond, 1}, {"Without", 0, 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			tap := l.Tap(l.IPMI(l.Machine("gentle")))
			tap.Delay(40 * time.Millisecond) // so that a command takes longer than the pause
			p := provider(t, func(cfg *bmc.Config) { cfg.IPMIGap, cfg.Protocol = c.gap, bmc.IPMI })
			crowd(t, p, remote("m", tap.Endpoint), 6, 1)
			commands, most, gap := tap.Seen()
			t.Logf("%d commands, at most %d at once, %v apart at least", commands, most, gap)
			if commands < 7 || most > c.most {
				t.Errorf("%d commands, %d at once, want 7 and at most %d", commands, most, c.most)
			}
			if c.gap > 0 && gap < c.gap {
				t.Errorf("two commands were %v apart, want %v", gap, c.gap)
			}
			if c.gap == 0 && most < 2 {
				t.Errorf("at most %d at once: nothing was tested", most)
			}
		})
	}
}

// The same over Redfish, whose BMC counts for itself; and it sees one login.
func TestGentleOverRedfish(t *testing.T) {
	t.Parallel()
	l := open(t)
	b := l.Redfish([]*Machine{l.Machine("gentle")})
	if err := b.Quirks(t.Context(), redfishtest.Quirks{Latency: 5 * time.Millisecond, SessionLimit: 8}); err != nil {
		t.Fatal(err)
	}
	p := provider(t, nil)
	crowd(t, p, remote("m", b.Endpoint), 30, 10)
	seen, err := b.Seen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen.Reads != 2 || seen.Writes != 1 || seen.Logins != 1 || seen.Sessions != 1 || seen.Served < 300 {
		t.Errorf(
			"the BMC has served %d requests, %d reads and %d writes at once, %d logins, %d sessions; want 300, 2, 1, 1, 1",
			seen.Served, seen.Reads, seen.Writes, seen.Logins, seen.Sessions)
	}
}
