package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// manyRuns returns a cluster in which the last runs of m-1 and m-3 have not succeeded, and those of
// m-2 and m-4 are active.
func manyRuns(plan string) *clitest.Cluster {
	f := clitest.Fixture()
	run := func(id, machine string, phase holdfastv1.Run_Phase) *holdfastv1.Run {
		r := &holdfastv1.Run{RunId: id, MachineId: machine, PlanId: plan, Phase: phase,
			Params: map[string]string{"image": "of-" + id}}
		if client.Finished(r) {
			r.FinishedAt = clitest.Ago(0)
		}
		return r
	}
	f.Runs = []*holdfastv1.Run{ // newest first
		run("run-6", "m-4", holdfastv1.Run_PENDING), run("run-5", "m-3", holdfastv1.Run_CANCELED),
		run("run-4", "m-2", holdfastv1.Run_RUNNING), run("run-3", "m-2", holdfastv1.Run_FAILED),
		run("run-2", "m-1", holdfastv1.Run_FAILED), run("run-1", "m-1", holdfastv1.Run_FAILED),
	}
	return f
}

func TestRunRetryFilter(t *testing.T) {
	const destructive = "plan-repave-ubuntu-2204-v1"
	refuses := func(machine string) func(*testing.T, *clitest.Cluster) {
		return func(t *testing.T, f *clitest.Cluster) {
			f.Refuse = func(req proto.Message) error {
				if r, ok := req.(*holdfastv1.StartRunRequest); ok && r.GetMachineId() == machine {
					return clitest.Refusal(t, codes.FailedPrecondition, "the machine is RETIRED")
				}
				return nil
			}
		}
	}
	for _, tt := range []struct {
		name, plan, args, in string
		change               func(*testing.T, *clitest.Cluster)
		code                 int
		started              []string // machine=image
		err                  string
	}{
		{name: "the last runs only", plan: "plan/reboot", started: []string{"m-3=of-run-5", "m-1=of-run-2"},
			err: "request-id: "},
		{name: "dry run", plan: "plan/reboot", args: "--dry-run --yes",
			err: "dry run: retry 2 runs; 2 × plan/reboot: interrupts the host"},
		{name: "request id", plan: "plan/reboot", args: "--request-id r-1",
			started: []string{"m-3=of-run-5", "m-1=of-run-2"}, err: "request-id: r-1\n"},
		{name: "confirmed", plan: destructive, in: "2\n", started: []string{"m-3=of-run-5", "m-1=of-run-2"},
			err: "retry 2 runs; 2 × " + destructive + ": erases the disk"},
		{name: "not confirmed", plan: destructive, in: "yes\n", code: app.ExitError, err: `got "yes", want "2"`},
		{name: "confirmed in advance", plan: destructive, args: "--yes", started: []string{"m-3=of-run-5", "m-1=of-run-2"}},
		{name: "one is refused", plan: "plan/reboot", change: refuses("m-3"), code: app.ExitConflict,
			started: []string{"m-3=of-run-5", "m-1=of-run-2"},
			err:     "retry runs: 1 of 2 failed:\n  retry run run-5: the machine is RETIRED\n"},
		{name: "one was observed", plan: "plan/reboot", code: app.ExitConflict, started: []string{"m-1=of-run-2"},
			change: func(_ *testing.T, f *clitest.Cluster) { f.Runs[1].Observed = true },
			err:    "failed:\n  retry run run-5: another system executed it"},
		{name: "none", plan: "plan/reboot", change: func(_ *testing.T, f *clitest.Cluster) { f.Runs = f.Runs[2:4] },
			err: "no machine has a last run that ended without success"},
		{name: "with a time to wait", plan: "plan/reboot", args: "--wait", code: app.ExitUsage,
			err: "--wait: only for one run"},
		{name: "with a run", plan: "plan/reboot", args: "run-5", code: app.ExitUsage, err: "give either RUN or --filter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := manyRuns(tt.plan)
			if tt.change != nil {
				tt.change(t, f)
			}
			clitest.Start(t, f)
			c := clitest.Command{In: tt.in, Terminal: true, Answers: true}
			args := append([]string{"run", "retry", "--filter", "pool = gpu"}, strings.Fields(tt.args)...)
			c.WantCode(t, c.Run(t, f, args...), tt.code)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			var started []string
			ids := map[string]bool{}
			for _, r := range clitest.Asked[*holdfastv1.StartRunRequest](f) {
				started = append(started, r.GetMachineId()+"="+r.GetParams()["image"])
				ids[r.GetRequestId()] = true
			}
			if diff := cmp.Diff(tt.started, started); diff != "" {
				t.Errorf("started runs (-want +got):\n%s", diff)
			}
			if len(started) > 0 && (len(ids) != 1 || ids[""]) {
				t.Errorf("got request ids %v, want one", ids)
			}
			if lists := clitest.Asked[*holdfastv1.ListRunsRequest](f); len(lists) > 0 &&
				lists[0].GetFilter() != "(pool = gpu) AND (phase = FAILED OR phase = CANCELED)" {
				t.Errorf("got filter %q, want that of the command line in it", lists[0].GetFilter())
			}
		})
	}
}

func TestRunCancelFilter(t *testing.T) {
	both := []*holdfastv1.CancelRunRequest{
		{RunId: "run-6", Reason: "wrong image"}, {RunId: "run-4", Reason: "wrong image"},
	}
	const loss = "cancel 2 runs; the machines of those that have begun go to MAINTENANCE"
	for _, tt := range []struct {
		name, args, in string
		runs           int // 0: all
		code           int
		canceled       []*holdfastv1.CancelRunRequest
		err            string
	}{
		{name: "confirmed", in: "2\n", canceled: both, err: loss + "\nType 2 to confirm: "},
		{name: "not confirmed", in: "run-6\n", code: app.ExitError, err: `got "run-6", want "2"`},
		{name: "confirmed in advance", args: "--yes", canceled: both},
		{name: "dry run", args: "--dry-run --yes", err: "dry run: " + loss},
		{name: "one", in: "run-6\n", runs: 1, canceled: both[:1],
			err: "cancel run run-6 (plan/reboot, PENDING); machine m-4 stays as it is: the run has not begun"},
		{name: "none", runs: -1, err: `no active run matches "pool = gpu"`},
		{name: "with a run", args: "run-6", code: app.ExitUsage, err: "give either RUN or --filter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := manyRuns("plan/reboot")
			switch {
			case tt.runs > 0:
				f.Runs = f.Runs[:tt.runs]
			case tt.runs < 0:
				f.Runs = f.Runs[4:]
			}
			clitest.Start(t, f)
			c := clitest.Command{In: tt.in, Terminal: true, Answers: true}
			args := append([]string{"run", "cancel", "--filter", "pool = gpu", "--reason", "wrong image"},
				strings.Fields(tt.args)...)
			c.WantCode(t, c.Run(t, f, args...), tt.code)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			if diff := cmp.Diff(tt.canceled, clitest.Asked[*holdfastv1.CancelRunRequest](f),
				protocmp.Transform()); diff != "" {
				t.Errorf("canceled runs (-want +got):\n%s", diff)
			}
		})
	}
	f := clitest.Start(t, manyRuns("plan/reboot"))
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "cancel", "run-6", "--dry-run"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "dry run: cancel run run-6")
}
