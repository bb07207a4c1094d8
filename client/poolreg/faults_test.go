package poolreg

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// After all faults of the peers, the pool is connected a minute and a half after they are
// repaired, and deregistered at the end. While one of them works, at most two heartbeats in a row
// are missed, plus the time of their tries.
func TestClientUnderRandomFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				o := &orchestratord{interval: 10000}
				n := cluster(o)
				c, stop := start(t, config(n), gpus())
				for range 8 {
					ill := resttest.Storm(r, n, hosts(), o.ServeHTTP, 10*time.Minute, sleep)
					if ill < 3 && !c.Orchestrator().Connected {
						t.Fatalf("%d of three failed: got %+v", ill, c.Orchestrator())
					}
					if r.IntN(3) == 0 {
						o.forget()
					}
					sleep(90 * time.Second)
					if s := c.Orchestrator(); !s.Connected || s.Failures != 0 {
						t.Fatalf("after %d of three failed: got %+v", ill, s)
					}
				}
				stop()
				if o.known || len(o.deregisters) != 1 {
					t.Errorf("got registered %v, %d deregistrations", o.known, len(o.deregisters))
				}
			})
		})
	}
}
