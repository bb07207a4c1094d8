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

// planTalk is the plan of the runs to archive. Each prints this number of lines.
const (
	planTalk = "fp-talk"
	lines    = 200
)

// archiving is a cluster that archives its runs.
type archiving struct {
	*lab.Lab
	s    Switches
	dir  string            // of the archive
	runs map[string]string // run id by machine
}

// crashArchive kills the leader at each point between an archive and the state. Each run must
// remain readable as a whole, by its id and by its request, and be listed once, until its retention
// in the archive ends.
func crashArchive(t *testing.T, binary string, points []string) {
	a := &archiving{dir: filepath.Join(t.TempDir(), "archive"), runs: map[string]string{}}
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
	// The provoked points come last: from then on, the archive keeps runs only for a moment.
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

// script returns a script that prints n lines.
func script(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "echo line %d\n", i+1)
	}
	return b.String()
}

// crash kills the leader at a point, and checks every run that was started so far.
func (a *archiving) crash(t *testing.T, point string) {
	ctx, stop := context.WithTimeout(t.Context(), 2*patience) // some scenarios first restart peers
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
		t.Fatalf("die at %s: got %v, %v, %v", point, fired, err, derr)
	}
	if err := a.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := a.Deaths() - before; n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
	if provoke == nil {
		a.archived(ctx, t)
	} else {
		a.dropped(ctx, t)
	}
	a.once(ctx, t)
}

// start starts the run of a machine. It is idempotent.
func (a *archiving) start(ctx context.Context, machine string) (*holdfastv1.Run, error) {
	return a.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "left-" + machine, MachineId: machine,
		PlanId: planTalk})
}

// wait blocks until a run satisfies cond, and returns it.
func (a *archiving) wait(
	ctx context.Context, t *testing.T, id, what string, cond func(*holdfastv1.Run) bool,
) *holdfastv1.Run {
	t.Helper()
	var run *holdfastv1.Run
	if err := lab.Until(ctx, "run "+id+" to be "+what, func() (done bool) {
		got, err := a.Client.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
		run = got
		return err == nil && cond(got)
	}); err != nil {
		t.Fatalf("%v; got %v", err, run)
	}
	return run
}

// archived waits until all runs are archived, and reads each of them.
func (a *archiving) archived(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, id := range a.runs {
		run := a.wait(ctx, t, id, "archived", func(r *holdfastv1.Run) bool { return r.GetArchive() != nil })
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()) != 1 ||
			len(run.GetSteps()[0].GetAttempts()) != 1 || run.GetArchive().GetNote() != "" {
			t.Errorf("archived run %s is incomplete: %v", id, run)
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
				t.Fatalf("log of run %s: got line %d %d times, want once:\n%s", id, i+1, n, text.String())
			}
		}
		if _, err := os.Stat(filepath.Join(a.dir, run.GetArchive().GetObject())); err != nil {
			t.Errorf("stat the object of run %s: %v", id, err)
		}
	}
	a.folders(t, len(a.runs))
}

// dropped waits until the retention of all runs has ended, and checks that only their names are
// left.
func (a *archiving) dropped(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, id := range a.runs {
		run := a.wait(ctx, t, id, "dropped", func(r *holdfastv1.Run) bool { return r.GetArchive().GetDroppedAt() != nil })
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("dropped run %s: got %v, want SUCCEEDED", id, run)
		}
	}
	a.folders(t, 0)
}

// folders checks the number of folders in the archive, one per run.
func (a *archiving) folders(t *testing.T, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.dir, "runs"))
	if err != nil || len(entries) != want {
		t.Errorf("folders in the archive: got %d, %v, want %d", len(entries), err, want)
	}
}

// once checks that each run is listed once and that its request still returns it.
func (a *archiving) once(ctx context.Context, t *testing.T) {
	t.Helper()
	for machine, id := range a.runs {
		runs, err := a.Client.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: "machine_id=" + machine})
		if err != nil || len(runs.GetRuns()) != 1 || runs.GetRuns()[0].GetRunId() != id {
			t.Errorf("runs of %s: got %v, %v, want only %s", machine, runs.GetRuns(), err, id)
		}
		if run, err := a.start(ctx, machine); err != nil || run.GetRunId() != id {
			t.Errorf("repeat StartRun for %s: got %s, %v, want %s", machine, run.GetRunId(), err, id)
		}
	}
}
