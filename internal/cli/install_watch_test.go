package cli_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// session returns a session of m-123, for an attempt of a run. over means that it is closed.
func session(run string, attempt int32, stage holdfastv1.Install_Stage, over bool) *holdfastv1.Install {
	i := &holdfastv1.Install{MachineId: "m-123", RunId: run, Step: "repave-os", Attempt: attempt, Stage: stage,
		Detail: "of " + run}
	if over {
		i.ClosedAt = timestamppb.New(clitest.Now())
	}
	return i
}

// TestInstallWatchEnd checks that the exit code is that of the intended install and its outcome.
func TestInstallWatchEnd(t *testing.T) {
	const complete, booted, failed, writing = holdfastv1.Install_COMPLETE, holdfastv1.Install_BOOTED_DISK,
		holdfastv1.Install_FAILED, holdfastv1.Install_WRITING
	old := session("run-700", 1, booted, true)
	running, ended, repaved := clitest.FixtureRuns()[0], clitest.FailedRun(), clitest.Succeeded()
	for _, r := range []*holdfastv1.Run{running, ended, repaved} {
		r.GetSteps()[1].Attempts = []*holdfastv1.Attempt{
			{Number: 1, Outcome: holdfastv1.Attempt_FAILED, Error: "it did not boot from its disk"}, {Number: 2,
				Outcome: holdfastv1.Attempt_SUCCEEDED}}
	}
	for _, tt := range []struct {
		name   string
		active string // run of the machine
		run    *holdfastv1.Run
		seen   []*holdfastv1.Install // by successive reads, repeating the last one
		want   int
		out    string
		none   string // must not be in the output
		err    string
	}{
		{"complete", "", repaved, []*holdfastv1.Install{session("run-789", 2, complete, true)}, app.ExitOK,
			"m-123  complete (over)", "", ""},
		{"complete, host never came up", "", ended, []*holdfastv1.Install{session("run-789", 1, complete, true)},
			app.ExitRunFailed, "complete (over)", "", "install of m-123: it did not boot from its disk"},
		{"complete, unknown attempt", "", ended, []*holdfastv1.Install{session("run-789", 3, complete, true)},
			app.ExitRunFailed, "", "", "it was over at complete"},
		{"complete during the watch, never booted", "run-789", running,
			[]*holdfastv1.Install{session("run-789", 1, complete, false), session("run-789", 1, complete, true)},
			app.ExitRunFailed, "complete (over)", "", "it did not boot from its disk"},
		{"last one, without an active run", "", running, []*holdfastv1.Install{old}, app.ExitOK, "of run-700", "", ""},
		{"last one, before the next", "run-789", running,
			[]*holdfastv1.Install{old, old, old, session("run-789", 1, writing, false), session("run-789", 1, failed, false)},
			app.ExitRunFailed, "m-123  writing", "of run-700", "run run-789 has not begun to install yet"},
		{"last one, without a next", "run-789", ended, []*holdfastv1.Install{old}, app.ExitRunFailed, "",
			"of run-700", "run run-789 has ended (FAILED) and installed nothing"},
		{"active one, failed", "run-789", running,
			[]*holdfastv1.Install{session("run-789", 1, failed, true)}, app.ExitRunFailed, "failed", "",
			"it was over at failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Machines[0].Status.ActiveRunId, f.Runs = tt.active, []*holdfastv1.Run{tt.run}
			f.Install = func(asked int) *holdfastv1.Install { return tt.seen[min(asked, len(tt.seen))-1] }
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, "install", "watch", "m-123", "--interval", "1ms"), tt.want)
			clitest.WantIn(t, "stdout", c.Out.String(), tt.out)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			if tt.none != "" && strings.Contains(c.Out.String(), tt.none) {
				t.Errorf("got %q in stdout:\n%s", tt.none, c.Out.String())
			}
		})
	}
}
