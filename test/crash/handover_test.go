package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// A leader that is asked to stop hands its runs over: none fails, no attempt is made again, and
// writers hardly notice.
func TestHandover(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("work", step("talk", &holdfastv1.SshCommand{Script: bystanderScript}),
		step("boot", &holdfastv1.SetNetboot{Mode: "PXE"}),
		step("restart", &holdfastv1.Reboot{Mode: "bmc"}), step("install", &holdfastv1.RepaveImage{Image: "debian-13"}))
	for round := range 3 {
		w := c.Write(fmt.Sprintf("m-written-%d", round))
		var runs []string
		for i := range 8 {
			machine := fmt.Sprintf("m-%d-%d", round, i)
			c.Register(machine)
			runs = append(runs, c.Start(machine, "work").GetRunId())
		}
		// At another moment of the runs in each round.
		wanted := []string{"command", "boot_device", "power_off"}[round]
		harness.Until(t, "runs in flight", func() (bool, any) {
			n := harness.Count(c.Effects("", runs[0]), wanted)
			return n > 0, n
		})
		leader := c.TheLeader()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		asked := time.Now()
		if err := leader.Stop(ctx); err != nil {
			t.Errorf("a graceful stop: %v", err)
		}
		stop()
		stopped := time.Since(asked)
		for _, id := range runs {
			run := c.Ended(id)
			c.Verdict(run)
			checkOutput(t, c.Log(id, "stdout"), bystanderScript)
			for _, s := range run.GetSteps() {
				if n := len(s.GetAttempts()); n != 1 {
					t.Errorf("step %s of run %s took %d attempts", s.GetName(), id, n)
				}
			}
		}
		acked, longest := w.Stop()
		t.Logf("round %d: %d writes, the longest time without an acknowledged write was %s; the peer had stopped after %s",
			round, acked, longest.Round(time.Millisecond), stopped.Round(time.Millisecond))
		// Tens of milliseconds here. A caller that is kept until the old leader's server is cut off
		// waits for 3 s, and so does the stop then; where that was quicker the machine is busy.
		limit := 10 * time.Second
		if stopped >= 3*time.Second {
			limit = 2 * time.Second
		}
		if longest > limit {
			t.Errorf("no write was acknowledged for %s while the leader was handed over", longest)
		}
		c.Restart(leader)
	}
}
