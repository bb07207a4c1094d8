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

// The limits of docs/reliability.md, with the default timeouts and a release binary.
const (
	writesMedian = 600 * time.Millisecond
	writesMost   = time.Second
	runsMost     = 10 * time.Second
	// between two stale reads of one peer, on a busy machine
	staleMost = 250 * time.Millisecond
	kills     = 30
)

// TestKillFigures kills the leader repeatedly under load, measures the interruptions of clients,
// and compares them with the limits.
func TestKillFigures(t *testing.T) {
	if os.Getenv("KILL_FIGURES") == "" {
		t.Skip("takes minutes on an idle machine: run make chaos-figures, or set KILL_FIGURES=1")
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

// report prints the measurements, and fails the test if one exceeds its limit.
func report(t *testing.T, n int, gaps []chaos.Gaps) {
	t.Helper()
	if len(gaps) != n {
		t.Fatalf("got %d measurements, want %d", len(gaps), n)
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
		{"every run in progress has moved again", func(g chaos.Gaps) time.Duration { return g.Runs }, runsMost, runsMost},
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
		t.Errorf("%d stale reads failed at surviving peers, want 0", failed)
	}
}

func round3(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
