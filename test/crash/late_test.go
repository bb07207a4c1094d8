package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
)

// lateRounds is the number of stops at each failpoint.
const lateRounds = 14

// TestStopLeaderBeforeEffect stops a leader between two checks on the path of an effect, and
// resumes it after the next leader has done the work. The next check must stop the effect: the
// confirmation of the term, the provider, or the hardware itself.
func TestStopLeaderBeforeEffect(t *testing.T) {
	long(t)
	t.Parallel()
	binary := lateBinary(t)
	for _, tc := range []struct {
		point  string
		caught string // what stops the effect
		logged int    // late effects that the leader logs, by its own check or the hardware's
		late   int    // late effects that the hardware refuses
	}{
		{"effect-due", "the majority", 0, 0},
		{"term-confirmed", "the provider", 1, 0},
		{"effect-leaving", "the hardware", 1, 1},
	} {
		t.Run(tc.point, func(t *testing.T) {
			t.Parallel()
			s, err := failpoint.NewSwitches(t.TempDir(), tc.point)
			if err != nil {
				t.Fatal(err)
			}
			c := bench.Of(binary).Cluster(t, harness.Options{Failpoints: s.StopEnvironment(tc.point)})
			var cases []crashCase
			for _, k := range crashCases() {
				if k.first == nil && len(k.want) > 0 {
					k.plan(c)
					cases = append(cases, k)
				}
			}
			stops := 0
			for round := range lateRounds {
				k := cases[round%len(cases)]
				ok := t.Run(fmt.Sprintf("%s-%d", k.name, round), func(t *testing.T) {
					lateOnce(t, c.In(t), s, tc.point, k, fmt.Sprintf("m-%d", round), tc.logged, tc.late)
				})
				if !ok {
					return
				}
				stops++
			}
			t.Logf("stopped and resumed %d leaders at %s: no effect happened twice, each was stopped by %s", stops,
				tc.point, tc.caught)
		})
	}
}

// lateBinary builds the product with failpoints. Its attempts do not notice the end of their term.
// That usually stops a resumed leader too, but only by luck.
func lateBinary(t *testing.T) string {
	t.Helper()
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay.New(root)
	if err := o.Patch("executor/fence/fence.go", "providers.WithNotAfter(ctx, notAfter)",
		"providers.WithNotAfter(context.WithoutCancel(ctx), notAfter)"); err != nil {
		t.Fatal(err)
	}
	if _, err := failpoint.Arm(o); err != nil {
		t.Fatal(err)
	}
	binary, err := program.Build{Race: true, Overlay: o}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func lateOnce(
	t *testing.T, c *harness.Cluster, s failpoint.Switches, point string, k crashCase, machine string, logged, late int,
) {
	c.Register(machine)
	if err := s.Arm(point); err != nil {
		t.Fatal(err)
	}
	id := c.Start(machine, "crash-"+k.name).GetRunId()
	leader := c.StoppedAt(point, func() (int, bool) { return s.PID(point) })
	if err := leader.Pause(); err != nil { // so that it gets no more calls
		t.Fatal(err)
	}
	others := c.Through(c.TheLeader())
	k.check(t, others, others.Ended(id), 2)
	seen := len(others.Effects(machine, ""))
	before := tooLate(t, leader)

	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the stopped peer to follow", func() (bool, any) {
		r, err := leader.Readiness(t.Context())
		return err == nil && r.Role == "follower" && r.Leader != leader.ID, r
	})
	harness.Until(t, "it to log a late effect", func() (bool, any) {
		n := tooLate(t, leader) - before
		return n >= logged, n
	})
	k.check(t, c, c.Ended(id), 2)
	if n := len(c.Effects(machine, "")); n != seen {
		t.Errorf("the resumed leader caused %d effects, want 0", n-seen)
	}
	if n := tooLate(t, leader) - before; n != logged {
		t.Errorf("late effects in the log of the resumed leader: got %d, want %d", n, logged)
	}
	if n := c.Hardware(machine).Late; n != late {
		t.Errorf("late effects refused by the hardware: got %d, want %d", n, late)
	}
	c.Ready()
}

// tooLate counts the late effects in a peer's log.
func tooLate(t *testing.T, p *localcluster.Peer) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Clean(p.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("effect was too late and was not sent"))
}
