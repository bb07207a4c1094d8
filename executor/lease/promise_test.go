package lease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// event is one event of a sequence; the next one follows after a delay.
type event struct {
	what  string
	id    string
	after time.Duration
}

// If a renewal is answered as renewed, the answering leader keeps the lease for its TTL from the
// receipt of the heartbeat, and checks it no later than that, under all faults.
func TestRenewedMeansKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		story := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) event {
			return event{
				what: rapid.SampledFrom([]string{"renew", "renew", "renew", "renew", "register", "delete", "stall", "release",
					"lead"}).Draw(rt, "what"),
				id: fmt.Sprintf("m-%d", rapid.IntRange(1, 3).Draw(rt, "machine")),
				after: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 15, 300, 20_000, 40_000, 299_000, 301_000}).Draw(rt,
					"milliseconds")) * time.Millisecond,
			}
		}), 1, 40).Draw(rt, "story")
		seed := rapid.Uint64().Draw(rt, "seed")
		var failed []string
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, seed)
			l.lead(0)
			release := func() {}
			asked, answered := 0, 0
			renew := func(id string) {
				asked++
				engine, taken := l.engine.Load(), time.Now()
				engine.Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: id}},
					func(a *internalv1.RenewalAnswer) {
						l.mu.Lock()
						defer l.mu.Unlock()
						answered++
						if a.GetOutcome() != renewed {
							return
						}
						left, ok := engine.LeftWhileAnswering(machine, id)
						if want := machineTTL - time.Since(taken); want > 0 && (!ok || left < want) {
							failed = append(failed, fmt.Sprintf("%s renewed: kept for %v, %t, want %v", id, left, ok, want))
						}
					})
			}
			for _, d := range story {
				switch d.what {
				case "renew":
					renew(d.id)
				case "register":
					l.register(d.id)
				case "delete":
					if _, ok := l.state.View().Machine(d.id); ok {
						l.must(&internalv1.Command{
							Op: &internalv1.Command_DeleteMachine{DeleteMachine: &internalv1.DeleteMachine{MachineId: d.id}}})
					}
				case "stall":
					release()
					release = l.stall()
				case "release", "lead":
					release()
					release = func() {}
					if d.what == "lead" {
						l.lead(d.after)
					}
				}
				pass(d.after)
			}
			release()
			l.depose()
			synctest.Wait()
			if asked != answered {
				failed = append(failed, fmt.Sprintf("%d heartbeats have had %d answers", asked, answered))
			}
		})
		if len(failed) > 0 {
			rt.Fatalf("%v", failed)
		}
	})
}
