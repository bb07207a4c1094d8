package robustness

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/chaos"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

const (
	faultEvery = 15 * time.Second // see docs/reliability.md
	// until all checks; then the next round begins on the same cluster
	roundTime = 5 * time.Minute
	// soakMultiplier selects the default timeouts. With those of chaos, a busy machine would cause
	// elections without a fault.
	soakMultiplier = 1
	soakClients    = 5 // half as many as in chaos, because their runs stay recorded
)

// soak is the state of a soak test.
type soak struct {
	sizes  []harness.Size
	faults map[string][]time.Duration // time until the cluster was healthy
	ended  map[string]string          // phase of each run that has ended, by id
}

// TestSoak injects a fault every 15 seconds. Every five minutes it makes the checks that chaos
// makes at the end. Runs that ended in earlier rounds must not change, and peers must not leak
// memory or goroutines.
func TestSoak(t *testing.T) {
	minutes := env(t, "SOAK_MINUTES", 0)
	if minutes == 0 {
		t.Skip("takes long: run make soak MINUTES=60, or set SOAK_MINUTES")
	}
	// With the race detector, a peer takes ten times as long to load an hour of runs.
	if !inPrivate(t, os.Getenv("SOAK_RACE") != "") {
		return
	}
	faults, err := chaos.Named("")
	if err != nil {
		t.Fatal(err)
	}
	seed := env(t, "CHAOS_SEED", time.Now().UnixNano()%1e9)
	began := time.Now()
	e := build(t, os.Getenv("SOAK_RACE") != "")
	c := cluster(t, e, seed, soakMultiplier, harness.SomeSnapshots())
	s := soak{faults: map[string][]time.Duration{}, ended: map[string]string{}}
	for n := int64(0); time.Since(began) < time.Duration(minutes)*time.Minute; n++ {
		c.Log.Info("round", "seed", seed+n, "of_soak", seed)
		injected, err := chaos.Round{Seed: seed + n, Faults: faults, Every: faultEvery, Clients: soakClients, Report: c.Dir,
			Leases: e.leases, Agent: e.agent,
			For: min(roundTime, time.Duration(minutes)*time.Minute-time.Since(began))}.Run(t.Context(), c)
		for _, f := range injected {
			s.faults[f.Name] = append(s.faults[f.Name], f.Well)
			t.Logf("round %2d %8s  %-24s repaired after %s, healthy %s later", n+1, f.After, f.Name, f.Broke, f.Well)
		}
		if err != nil {
			t.Fatalf("soak of seed %d, round %d (similar: make chaos SEED=%d): %v", seed, n+1, seed+n, err)
		}
		if err := s.keep(t.Context(), c); err != nil {
			t.Fatalf("soak of seed %d, after round %d: %v", seed, n+1, err)
		}
		size, err := c.Idle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.sizes = append(s.sizes, size)
		t.Log("round ", n+1, ": ", size)
	}
	if err := flat(s.sizes); err != nil {
		t.Error(err)
	}
	s.report(t, time.Since(began))
}

// keep checks that runs that ended in earlier rounds are neither lost nor changed.
func (s *soak) keep(ctx context.Context, c *harness.Cluster) error {
	conn, err := grpc.NewClient("passthrough:///"+c.Addrs()[0], grpc.WithTransportCredentials(c.Credentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	runs, err := workload.ListRuns(ctx, holdfastv1.NewRunServiceClient(conn))
	if err != nil {
		return fmt.Errorf("list all runs: %w", err)
	}
	now := map[string]string{}
	for _, r := range runs {
		now[r.GetRunId()] = r.GetPhase().String()
	}
	for id, phase := range s.ended {
		if now[id] != phase {
			return fmt.Errorf("run %s ended with %s in an earlier round, now got %q", id, phase, now[id])
		}
	}
	s.ended = now // all have ended, as the round waited for them
	return nil
}

// report prints the figures of docs/reliability.md.
func (s *soak) report(t *testing.T, took time.Duration) {
	t.Helper()
	var all []time.Duration
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		well := s.faults[name]
		slices.Sort(well)
		all = append(all, well...)
		t.Logf("%-24s %3d times, healthy after p50 %8s  max %8s", name, len(well), round3(well[len(well)/2]),
			round3(well[len(well)-1]))
	}
	slices.Sort(all)
	t.Logf("%s: %d faults, healthy after p50 %s p90 %s max %s; %d runs; 0 effects lost, 0 made twice",
		took.Round(time.Second), len(all), round3(all[len(all)/2]), round3(all[len(all)*9/10]), round3(all[len(all)-1]),
		len(s.ended))
}

// flat compares the largest peer of each round with that of the first one. Recorded runs make the
// state grow. The heap grows by a multiple of that, because it holds the state as messages, in a
// snapshot being written, and as garbage.
func flat(sizes []harness.Size) error {
	first := sizes[0]
	for i, s := range sizes {
		if most := first.Goroutines*3/2 + 50; s.Goroutines > most {
			return fmt.Errorf("goroutines leak: %d at first, %d after round %d, want at most %d", first.Goroutines,
				s.Goroutines, i+1, most)
		}
		if most := first.Driver*3/2 + 50; s.Driver > most {
			return fmt.Errorf("goroutines of the driver leak: %d at first, %d after round %d, want at most %d", first.Driver,
				s.Driver, i+1, most)
		}
		if most := first.Heap*2 + 64<<20 + 6*(s.State-first.State); s.Heap > most {
			return fmt.Errorf("the heap grows: %d MiB at first, %d MiB after round %d, want at most %d", first.Heap>>20,
				s.Heap>>20, i+1, most>>20)
		}
	}
	return nil
}
