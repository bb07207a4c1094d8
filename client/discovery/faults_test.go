package discovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// Under all faults of routers and issuers, a service keeps its id, its last report arrives,
// and it deregisters at the end.
func TestManagerUnderRandomFaults(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				i := &issuer{discovery: true, lives: 5 * time.Minute}
				s, n, cfg := guarded(i, "https://issuer/realm")
				n.Serve("issuer2", i.ServeHTTP)
				cfg.TokenEndpoints = append(cfg.TokenEndpoints, "https://issuer2/realm")
				m, stop := start(t, cfg)
				sleep(time.Second)
				id := m.Target().ID
				for round := range 8 {
					if r.IntN(2) == 0 {
						i.revoke()
					}
					reason := fmt.Sprint("round ", round)
					m.Unhealthy(reason)
					if r.IntN(2) == 0 {
						resttest.Storm(r, n, hosts(), s.ServeHTTP, 10*time.Minute, sleep)
					} else {
						resttest.Storm(r, n, []string{"issuer", "issuer2"}, i.ServeHTTP, 10*time.Minute, sleep)
					}
					if r.IntN(3) == 0 {
						s.forget()
					}
					sleep(2 * time.Minute)
					if got := s.ids(); !slices.Equal(got, []string{id}) || m.Phase() != Active {
						t.Fatalf("round %d: got id %v in phase %s, want %s, ACTIVE", round, got, m.Phase(), id)
					}
					if last := s.lastReport(); last != reason {
						t.Fatalf("last report: got %q, want %q", last, reason)
					}
				}
				stop()
				if len(s.services) != 0 || s.bad != nil {
					t.Errorf("got %d remaining services, errors %q", len(s.services), s.bad)
				}
			})
		})
	}
}
