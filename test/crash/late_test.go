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

// lateRounds is how often a leader is stopped at each place.
const lateRounds = 14

// A leader is stopped in the very line between one check and the next on the way of an effect to
// the hardware, and goes on when the next leader has done the work. Whoever is the first to check
// after that stops the effect: the majority that confirms terms, the provider, or the hardware
// itself.
func TestStopLeaderOnTheWayToTheHardware(t *testing.T) {
	long(t)
	t.Parallel()
	binary := lateBinary(t)
	for _, tc := range []struct {
		point  string
		caught string // by whom
		logged int    // effects that the leader finds too late, itself or from the hardware
		late   int    // those that the hardware refuses
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
			t.Logf("%d leaders were stopped at %s and went on: no effect was done twice, each was caught by %s", stops,
				tc.point, tc.caught)
		})
	}
}

// lateBinary builds the product with failpoints. Its attempts do not notice that their term is
// over: that usually keeps a leader that goes on from sending anything, by luck, and nothing may
// hang on it.
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
	if err := leader.Pause(); err != nil { // so that it is not asked any more
		t.Fatal(err)
	}
	others := c.Through(c.TheLeader())
	k.check(t, others, others.Ended(id), 2)
	seen := len(others.Effects(machine, ""))
	before := tooLate(t, leader)

	if err := leader.Resume(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the peer that was stopped to follow", func() (bool, any) {
		r, err := leader.Readiness(t.Context())
		return err == nil && r.Role == "follower" && r.Leader != leader.ID, r
	})
	harness.Until(t, "it to find that it is too late", func() (bool, any) {
		n := tooLate(t, leader) - before
		return n >= logged, n
	})
	k.check(t, c, c.Ended(id), 2)
	if n := len(c.Effects(machine, "")); n != seen {
		t.Errorf("the leader that was stopped did %d things more when it went on", n-seen)
	}
	if n := tooLate(t, leader) - before; n != logged {
		t.Errorf("the leader that was stopped found %d effects too late, want %d", n, logged)
	}
	if n := c.Hardware(machine).Late; n != late {
		t.Errorf("the hardware refused %d effects that came too late, want %d", n, late)
	}
	c.Ready()
}

// tooLate counts the effects that a peer has found to be too late.
func tooLate(t *testing.T, p *localcluster.Peer) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Clean(p.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("effect was too late and was not sent"))
}
