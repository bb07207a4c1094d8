package crash

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestKillTwoLeadersInOneAttempt kills a leader, and later in the same attempt the one that adopted
// it. The third one completes it.
func TestKillTwoLeadersInOneAttempt(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	for _, k := range crashCases() {
		if k.first != nil {
			continue
		}
		k.plan(c)
		ok := t.Run(k.name, func(t *testing.T) {
			c := c.In(t)
			machine := "m-" + k.name
			c.Register(machine)
			var points []harness.Failpoint
			for _, b := range []runs.Boundary{runs.AfterIntent, runs.AfterEffect} {
				p := harness.Failpoint{Boundary: b, Kind: k.kind}
				if err := c.Points.Arm(p); err != nil {
					t.Fatal(err)
				}
				points = append(points, p)
			}
			id := c.Start(machine, "crash-"+k.name).GetRunId()
			for range points {
				dead, _ := c.Killed()
				if err := dead.Start(t.Context()); err != nil { // as systemd would: a leader needs two of three
					t.Fatal(err)
				}
			}
			for _, p := range points {
				if reached, err := c.Points.Disarm(p); err != nil || !reached {
					t.Errorf("no peer died at %s: %v", p.Boundary, err)
				}
			}
			k.check(t, c, c.Ended(id), 3)
			c.Ready()
		})
		if !ok {
			return
		}
	}
}
