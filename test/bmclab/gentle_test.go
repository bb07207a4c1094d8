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

// crowd makes many callers read and press at once.
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

// TestGentleOverIPMI checks the load on a BMC with IPMI: a pause between commands if it needs one,
// or at most two readers and one writer.
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
			tap.Delay(40 * time.Millisecond) // a command takes longer than the pause
			p := provider(t, func(cfg *bmc.Config) { cfg.IPMIGap, cfg.Protocol = c.gap, bmc.IPMI })
			crowd(t, p, remote("m", tap.Endpoint), 6, 1)
			commands, most, gap := tap.Seen()
			t.Logf("%d commands, at most %d at once, at least %v apart", commands, most, gap)
			if commands < 7 || most > c.most {
				t.Errorf("got %d commands, %d at once, want 7 and at most %d", commands, most, c.most)
			}
			if c.gap > 0 && gap < c.gap {
				t.Errorf("got a pause of %v, want at least %v", gap, c.gap)
			}
			if c.gap == 0 && most < 2 {
				t.Errorf("got at most %d at once: nothing was tested", most)
			}
		})
	}
}

// TestGentleOverRedfish is the same with Redfish, whose BMC counts requests itself, and gets one
// login.
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
			"got %d requests, %d reads and %d writes at once, %d logins, %d sessions, want 300, 2, 1, 1, 1",
			seen.Served, seen.Reads, seen.Writes, seen.Logins, seen.Sessions)
	}
}
