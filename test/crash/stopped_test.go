package crash

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// A leader that is stopped at a boundary and goes on when another one has done the work must do
// nothing more: it asks a majority right before each effect, and its outcome is refused
// (docs/reliability.md).
func TestStopLeaderAtBoundaries(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	for _, k := range crashCases() {
		k.plan(c)
	}
	// By boundary first: a leader that went on may be in the case before still, and is not to meet
	// the failpoint of the next one.
	for _, b := range runs.Boundaries() {
		for _, k := range crashCases() {
			destructive := k.kind == "reboot" || k.kind == "rma" || k.kind == "repave" || k.kind == "power"
			if b != runs.AfterIntent && !destructive {
				continue
			}
			if !t.Run(k.name+"/"+string(b), func(t *testing.T) { stopAt(t, c.In(t), k, b) }) {
				return
			}
		}
	}
}

func stopAt(t *testing.T, c *harness.Cluster, k crashCase, b runs.Boundary) {
	machine := "m-" + k.name + "-" + string(b)
	c.Register(machine)
	point := harness.Failpoint{Boundary: b, Kind: k.kind, Stop: true}
	if err := c.Points.Arm(point); err != nil {
		t.Fatal(err)
	}
	id := c.Start(machine, "crash-"+k.name).GetRunId()
	leader := c.Stopped(point)
	if err := leader.Pause(); err != nil { // so that it is not asked any more
		t.Fatal(err)
	}
	c = c.Through(c.TheLeader())
	k.check(t, c, c.Ended(id), leaders(b))
	seen := len(c.Effects(machine, ""))

	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the peer that was stopped to follow", func() (bool, any) {
		r, err := leader.Readiness(t.Context())
		return err == nil && r.Role == "follower" && r.Leader != leader.ID, r
	})
	// What it was about to do it would have done by now: its tasks end before it says that it
	// follows.
	k.check(t, c, c.Ended(id), leaders(b))
	if n := len(c.Effects(machine, "")); n != seen {
		t.Errorf("the leader that was stopped did %d things more when it went on", n-seen)
	}
	c.Ready()
}
