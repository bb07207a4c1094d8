package failpoint

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// talk is what the runs that leave do, and lines is what their logs must have, wherever they are.
const (
	planTalk = "fp-talk"
	lines    = 200
)

// left is a cluster whose runs leave it, and what was started on it.
type left struct {
	*lab.Lab
	s    Switches
	dir  string            // of the archive
	runs map[string]string // run by request id
}

// crashArchive kills the leader at one point after the other between an archive and the state. No
// run is lost, and none is there twice: each is to be read as a whole, by its id and by its
// request, until the archive's own retention has ended.
func crashArchive(t *testing.T, binary string, points []string) {
	a := &left{dir: filepath.Join(t.TempDir(), "archive"), runs: map[string]string{}}
	a.Lab, a.s = open(t, binary, []string{"--archive-url", "file://" + a.dir, "--archive-after", "1s",
		"--archive-keep-runs", "0"}, points...)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := a.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Plan(ctx, planTalk, lab.Script("talk", script(lines))); err != nil {
		t.Fatal(err)
	}
	// From the first one that is provoked on the archive keeps runs for a moment only.
	slices.SortStableFunc(points, func(p, q string) int {
		return cmp.Compare(btoi(scenarios()[p].provoke != nil), btoi(scenarios()[q].provoke != nil))
	})
	for _, point := range points {
		t.Run(point, func(t *testing.T) { a.crash(t, point) })
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// script returns a script that prints so many lines.
func script(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "echo line %d\n", i+1)
	}
	return b.String()
}

// crash kills the leader at a point, and looks at every run that there has been.
func (a *left) crash(t *testing.T, point string) {
	ctx, stop := context.WithTimeout(t.Context(), 2*patience) // some peers are started again before anything dies
	defer stop()
	provoke := scenarios()[point].provoke
	if provoke != nil {
		if err := provoke(ctx, a.Lab); err != nil {
			t.Fatal(err)
		}
	}
	before := a.Deaths()
	if err := a.s.Arm(point); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		machine := fmt.Sprintf("%s-%d", point, i)
		if err := a.Register(ctx, machine); err != nil {
			t.Fatal(err)
		}
		run, err := a.start(ctx, machine)
		if err != nil {
			t.Fatal(err)
		}
		a.runs[machine] = run.GetRunId()
	}
	for _, id := range a.runs {
		if err := a.Ended(ctx, id, holdfastv1.Run_SUCCEEDED); err != nil {
			t.Fatal(err)
		}
	}
	err := lab.Until(ctx, "a peer to die at "+point, func() bool { return a.s.Fired(point) && a.Deaths() > before })
	if fired, derr := a.s.Disarm(point); err != nil || derr != nil || !fired {
		t.Fatalf("died = %v: %v, %v", fired, err, derr)
	}
	if err := a.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := a.Deaths() - before; n != 1 {
		t.Errorf("%d peers have died, want one", n)
	}
	if provoke == nil {
		a.archived(ctx, t)
	} else {
		a.dropped(ctx, t)
	}
	a.once(ctx, t)
}

// start starts the run of a machine, or asks for it once more.
func (a *left) start(ctx context.Context, machine string) (*holdfastv1.Run, error) {
	return a.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "left-" + machine, MachineId: machine,
		PlanId: planTalk})
}

// wait waits until a run is where it should be, and gives it.
func (a *left) wait(
	ctx context.Context, t *testing.T, id, what string, cond func(*holdfastv1.Run) bool,
) *holdfastv1.Run {
	t.Helper()
	var run *holdfastv1.Run
	if err := lab.Until(ctx, "run "+id+" to be "+what, func() (done bool) {
		got, err := a.Client.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
		run = got
		return err == nil && cond(got)
	}); err != nil {
		t.Fatalf("%v; it is %v", err, run)
	}
	return run
}

// archived waits until all runs are in the archive, and reads each of them there.
func (a *left) archived(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, id := range a.runs {
		run := a.wait(ctx, t, id, "archived", func(r *holdfastv1.Run) bool { return r.GetArchive() != nil })
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()) != 1 ||
			len(run.GetSteps()[0].GetAttempts()) != 1 || run.GetArchive().GetNote() != "" {
			t.Errorf("run %s is not whole in the archive: %v", id, run)
		}
		var text strings.Builder
		if err := a.Client.ReadLogs(ctx, id, 0, func(c *holdfastv1.LogChunk) error {
			text.Write(c.GetData())
			return nil
		}); err != nil {
			t.Errorf("read the log of run %s: %v", id, err)
		}
		for i := range lines {
			if n := strings.Count(text.String(), fmt.Sprintf("line %d\n", i+1)); n != 1 {
				t.Fatalf("the log of run %s has line %d %d times, want once:\n%s", id, i+1, n, text.String())
			}
		}
		if _, err := os.Stat(filepath.Join(a.dir, run.GetArchive().GetObject())); err != nil {
			t.Errorf("the object of run %s: %v", id, err)
		}
	}
	a.folders(t, len(a.runs))
}

// dropped waits until the retention of all runs has ended, and sees that nothing is left but their
// names.
func (a *left) dropped(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, id := range a.runs {
		run := a.wait(ctx, t, id, "dropped", func(r *holdfastv1.Run) bool { return r.GetArchive().GetDroppedAt() != nil })
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run %s: %v", id, run)
		}
	}
	a.folders(t, 0)
}

// folders holds the archive to one folder for each run that it should have.
func (a *left) folders(t *testing.T, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.dir, "runs"))
	if err != nil || len(entries) != want {
		t.Errorf("the archive has %d folders, %v, want %d", len(entries), err, want)
	}
}

// once sees that each run is listed once, and that its request still names it.
func (a *left) once(ctx context.Context, t *testing.T) {
	t.Helper()
	for machine, id := range a.runs {
		runs, err := a.Client.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: "machine_id=" + machine})
		if err != nil || len(runs.GetRuns()) != 1 || runs.GetRuns()[0].GetRunId() != id {
			t.Errorf("runs of %s: got %v, %v, want %s alone", machine, runs.GetRuns(), err, id)
		}
		if run, err := a.start(ctx, machine); err != nil || run.GetRunId() != id {
			t.Errorf("the request of %s, asked once more: got %s, %v, want %s", machine, run.GetRunId(), err, id)
		}
	}
}
