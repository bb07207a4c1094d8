package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// Peers fail in every way and at any time. As long as one of them works within two minutes, a
// machine with a TTL of five minutes never expires and is never registered twice, without any
// intervention.
func TestAgentUnderRandomFaults(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				g := &gateway{token: "abc123", pool: "gpu"}
				n := cluster(g)
				a, stop := start(t, config(n), worker())
				sleep(time.Minute) // a registration whose answer was lost is repeated
				began := time.Now()
				for time.Since(began) < 6*time.Hour {
					ill := resttest.Storm(r, n, []string{"a", "b", "c"}, g.ServeHTTP, 2*time.Minute, sleep)
					sleep(2*time.Minute + resttest.UpTo(r, time.Hour))
					if s := a.Status(); !s.Ready {
						t.Fatalf("after %d of three failed: got %+v", ill, s)
					}
				}
				stop()
				if registers, keeps := g.counts(); registers != 1 || g.expired != 0 || keeps < 6*60*9/10 {
					t.Errorf("got %d registrations, %d expiries and %d keepalives in six hours", registers, g.expired, keeps)
				}
			})
		})
	}
}
