package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Machines that return at the same time get different intervals, within a tenth of a minute.
func TestMachinesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		seen := map[int64]bool{}
		for range 100 {
			l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: "m-1"}},
				func(a *internalv1.RenewalAnswer) {
					got := time.Duration(a.GetIntervalMs()) * time.Millisecond
					if got < 54*time.Second || got > 66*time.Second {
						t.Errorf("got %s, want a minute, plus or minus a tenth", got)
					}
					seen[a.GetIntervalMs()] = true
				})
		}
		synctest.Wait()
		if len(seen) < 80 {
			t.Errorf("got %d different intervals, want most of 100", len(seen))
		}
	})
}
