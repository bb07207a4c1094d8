package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestHandover checks that a leader that is stopped gracefully hands over its runs: none fails or
// needs another attempt, and writes pause only briefly.
func TestHandover(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("work", step("talk", &holdfastv1.SshCommand{Script: bystanderScript}),
		step("boot", &holdfastv1.SetNetboot{Mode: "PXE"}),
		step("restart", &holdfastv1.Reboot{Mode: "bmc"}), step("install", &holdfastv1.RepaveImage{Image: "debian-13"}))
	const rounds = 3
	waited := 0 // rounds in which a write may have waited for the old leader's server
	for round := range rounds {
		w := c.Write(fmt.Sprintf("m-written-%d", round))
		var runs []string
		for i := range 8 {
			machine := fmt.Sprintf("m-%d-%d", round, i)
			c.Register(machine)
			runs = append(runs, c.Start(machine, "work").GetRunId())
		}
		// Each round stops the leader at a different moment of the runs.
		wanted := []string{"command", "boot_device", "power_off"}[round]
		harness.Until(t, "runs in flight", func() (bool, any) {
			n := harness.Count(c.Effects("", runs[0]), wanted)
			return n > 0, n
		})
		leader := c.TheLeader()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		asked := time.Now()
		if err := leader.Stop(ctx); err != nil {
			t.Errorf("stop the leader: %v", err)
		}
		stop()
		stopped := time.Since(asked)
		for _, id := range runs {
			run := c.Ended(id)
			c.CheckRun(run)
			checkOutput(t, c.Log(id, "stdout"), bystanderScript)
			for _, s := range run.GetSteps() {
				if n := len(s.GetAttempts()); n != 1 {
					t.Errorf("step %s of run %s: got %d attempts, want 1", s.GetName(), id, n)
				}
			}
		}
		acked, longest := w.Stop()
		t.Logf("round %d: %d writes, at most %s without an acknowledged one; the peer stopped after %s",
			round, acked, longest.Round(time.Millisecond), stopped.Round(time.Millisecond))
		// Normally tens of milliseconds. A call that waits for the end of the old leader's server
		// takes 3 s, and so does the stop then, in each round. One such round only means a busy
		// machine.
		if stopped >= 3*time.Second && longest > 2*time.Second {
			waited++
		}
		if longest > 10*time.Second || waited == rounds {
			t.Errorf("got %s without an acknowledged write during the handover", longest)
		}
		c.Restart(leader)
	}
}
