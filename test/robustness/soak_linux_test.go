package robustness

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/chaos"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

const (
	faultEvery = 15 * time.Second // issue B
	roundTime  = 5 * time.Minute  // of one piece of traffic; then everything is checked, and the next begins on the same cluster
)

// Faults for as long as one wants, a fault every 15 seconds. What is checked at the end of chaos is checked here every five
// minutes; and peers neither grow nor collect goroutines.
func TestSoak(t *testing.T) {
	minutes := env(t, "SOAK_MINUTES", 0)
	if minutes == 0 {
		t.Skip("it takes as long as it is told to: run make soak MINUTES=60, or set SOAK_MINUTES")
	}
	if !inPrivate(t) {
		return
	}
	faults, err := chaos.Named("")
	if err != nil {
		t.Fatal(err)
	}
	seed := env(t, "CHAOS_SEED", time.Now().UnixNano()%1e9)
	began := time.Now()
	c := cluster(t, seed)
	var sizes []harness.Size
	for n := int64(0); time.Since(began) < time.Duration(minutes)*time.Minute; n++ {
		c.Log.Info("round", "seed", seed+n, "of_soak", seed)
		injected, err := chaos.Round{Seed: seed + n, Faults: faults, Every: faultEvery, Report: c.Dir,
			For: min(roundTime, time.Duration(minutes)*time.Minute-time.Since(began))}.Run(t.Context(), c)
		for _, f := range injected {
			t.Logf("round %2d %8s  %-24s mended after %s, all well %s later", n+1, f.After, f.Name, f.Broke, f.Well)
		}
		if err != nil {
			t.Fatalf("soak of seed %d, round %d (make chaos SEED=%d is like it): %v", seed, n+1, seed+n, err)
		}
		size, err := c.Idle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
		t.Log("round ", n+1, ": ", size)
	}
	if err := flat(sizes); err != nil {
		t.Error(err)
	}
}

// flat holds the largest peer at the end against the first round. What runs leave on record may grow, slowly; the heap
// of a peer that was restarted a minute ago says little, so that there is some slack.
func flat(sizes []harness.Size) error {
	first, last := sizes[0], sizes[len(sizes)-1]
	if most := first.Goroutines*3/2 + 50; last.Goroutines > most {
		return fmt.Errorf("goroutines leak: %d at first, %d in the end, want at most %d", first.Goroutines, last.Goroutines, most)
	}
	if most := first.Heap*2 + 64<<20*int64(len(sizes)/12+1); last.Heap > most {
		return fmt.Errorf("the heap grows: %d MiB at first, %d MiB in the end, want at most %d", first.Heap>>20, last.Heap>>20, most>>20)
	}
	return nil
}
