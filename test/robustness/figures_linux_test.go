package robustness

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/chaos"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// The figures to reach (issue B), on the default timeouts, with a binary as users run it.
const (
	writesMedian = 600 * time.Millisecond
	writesMost   = time.Second
	runsMost     = 10 * time.Second
	// between two stale reads of one peer: the machine may be busy, the peer must not
	staleMost = 250 * time.Millisecond
	kills     = 30
)

// The leader is killed under load, again and again. What clients see of it is measured, and must be
// as promised.
func TestKillFigures(t *testing.T) {
	if os.Getenv("KILL_FIGURES") == "" {
		t.Skip("it takes minutes and wants the machine for itself: run make chaos-figures, or set KILL_FIGURES=1")
	}
	dir := t.TempDir()
	binary := program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := harness.Start(ctx, harness.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"), Loopback: true,
		RaftMultiplier: 1,
		Log:            slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(false); err != nil {
			t.Error(err)
		}
	})
	n := int(env(t, "KILLS", kills))
	gaps, err := chaos.KillLeaders(t.Context(), c, n)
	if err != nil {
		t.Fatal(err)
	}
	report(t, n, gaps)
}

// report prints what was measured, and fails where it is not what was promised.
func report(t *testing.T, n int, gaps []chaos.Gaps) {
	t.Helper()
	if len(gaps) != n {
		t.Fatalf("%d of %d kills were measured", len(gaps), n)
	}
	for _, row := range []struct {
		what         string
		of           func(chaos.Gaps) time.Duration
		median, most time.Duration
	}{
		{"writes back after SIGKILL of the leader", func(g chaos.Gaps) time.Duration { return g.Writes }, writesMedian,
			writesMost},
		{"linearizable reads back, on every surviving peer", func(g chaos.Gaps) time.Duration { return g.Reads },
			writesMedian, writesMost},
		{"longest time between two stale reads of a surviving peer", func(g chaos.Gaps) time.Duration { return g.Stale },
			staleMost, staleMost},
		{"every run in flight has moved again", func(g chaos.Gaps) time.Duration { return g.Runs }, runsMost, runsMost},
	} {
		var all []time.Duration
		for _, g := range gaps {
			all = append(all, row.of(g))
		}
		slices.Sort(all)
		median, most := all[len(all)/2], all[len(all)-1]
		line := fmt.Sprintf("%-58s p50 %8s  p90 %8s  max %8s   of %d kills", row.what, round3(median),
			round3(all[len(all)*9/10]), round3(most), n)
		if median > row.median || most > row.most {
			t.Errorf("%s: want p50 ≤ %s, max ≤ %s", line, row.median, row.most)
			continue
		}
		t.Log(line)
	}
	failed := 0
	for _, g := range gaps {
		failed += g.StaleFailed
	}
	if failed > 0 {
		t.Errorf("%d stale reads failed on peers that were alive", failed)
	}
}

func round3(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
