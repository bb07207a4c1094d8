package crash

import (
	"testing"

	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestStopLeaderAtBoundaries stops a leader at a boundary, and resumes it after another one has
// done the work. It must cause no further effect: it confirms its term with a majority right before
// each effect, and its outcome is refused (docs/reliability.md).
func TestStopLeaderAtBoundaries(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	for _, k := range crashCases() {
		k.plan(c)
	}
	// The boundary is the outer loop: a resumed leader may still be in the case before, and must
	// not reach the failpoint of the next one.
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
	if err := leader.Pause(); err != nil { // so that it gets no more calls
		t.Fatal(err)
	}
	c = c.Through(c.TheLeader())
	k.check(t, c, c.Ended(id), leaders(b))
	seen := len(c.Effects(machine, ""))

	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the stopped peer to follow", func() (bool, any) {
		r, err := leader.Readiness(t.Context())
		return err == nil && r.Role == "follower" && r.Leader != leader.ID, r
	})
	// Any effect would have happened by now: its tasks end before it reports that it follows.
	k.check(t, c, c.Ended(id), leaders(b))
	if n := len(c.Effects(machine, "")); n != seen {
		t.Errorf("the resumed leader caused %d effects, want 0", n-seen)
	}
	c.Ready()
}
