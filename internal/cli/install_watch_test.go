package cli

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// session is one of m-123, of an attempt of a run; over tells that it is closed.
func session(run string, attempt int32, stage holdfastv1.Install_Stage, over bool) *holdfastv1.Install {
	i := &holdfastv1.Install{MachineId: "m-123", RunId: run, Step: "repave-os", Attempt: attempt, Stage: stage,
		Detail: "of " + run}
	if over {
		i.ClosedAt = timestamppb.New(now())
	}
	return i
}

// TestInstallWatchEnd: the code is that of the install which was meant, and of what came of it.
func TestInstallWatchEnd(t *testing.T) {
	const complete, booted, failed, writing = holdfastv1.Install_COMPLETE, holdfastv1.Install_BOOTED_DISK,
		holdfastv1.Install_FAILED, holdfastv1.Install_WRITING
	old := session("run-700", 1, booted, true)
	running, ended, repaved := fixtureRuns()[0], failedRun(), succeeded()
	for _, r := range []*holdfastv1.Run{running, ended, repaved} {
		r.GetSteps()[1].Attempts = []*holdfastv1.Attempt{
			{Number: 1, Outcome: holdfastv1.Attempt_FAILED, Error: "it did not boot from its disk"}, {Number: 2,
				Outcome: holdfastv1.Attempt_SUCCEEDED}}
	}
	for _, tt := range []struct {
		name   string
		active string // run of the machine
		run    *holdfastv1.Run
		seen   []*holdfastv1.Install // by one look after the other; the last one stays
		want   int
		out    string
		none   string // in the output
		err    string
	}{
		{"complete, and that was all", "", repaved, []*holdfastv1.Install{session("run-789", 2, complete, true)}, ExitOK,
			"m-123  complete (over)", "", ""},
		{"complete, and never came up", "", ended, []*holdfastv1.Install{session("run-789", 1, complete, true)},
			ExitRunFailed, "complete (over)", "", "install of m-123: it did not boot from its disk"},
		{"complete, and nobody knows", "", ended, []*holdfastv1.Install{session("run-789", 3, complete, true)},
			ExitRunFailed, "", "", "it was over at complete"},
		{"complete while it is watched, and never came up", "run-789", running,
			[]*holdfastv1.Install{session("run-789", 1, complete, false), session("run-789", 1, complete, true)},
			ExitRunFailed, "complete (over)", "", "it did not boot from its disk"},
		{"the last one, and nothing is under way", "", running, []*holdfastv1.Install{old}, ExitOK, "of run-700", "", ""},
		{"the last one, and the next is to come", "run-789", running,
			[]*holdfastv1.Install{old, old, old, session("run-789", 1, writing, false), session("run-789", 1, failed, false)},
			ExitRunFailed, "m-123  writing", "of run-700", "run run-789 has not begun to install yet"},
		{"the last one, and the next does not come", "run-789", ended, []*holdfastv1.Install{old}, ExitRunFailed, "",
			"of run-700", "run run-789 has ended (FAILED) and installed nothing"},
		{"the one that is under way, which has failed", "run-789", running,
			[]*holdfastv1.Install{session("run-789", 1, failed, true)}, ExitRunFailed, "failed", "", "it was over at failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			f.machines[0].Status.ActiveRunId, f.runs = tt.active, []*holdfastv1.Run{tt.run}
			f.install = func(asked int) *holdfastv1.Install { return tt.seen[min(asked, len(tt.seen))-1] }
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, "install", "watch", "m-123", "--interval", "1ms"), tt.want)
			wantIn(t, "stdout", c.out.String(), tt.out)
			wantIn(t, "stderr", c.err.String(), tt.err)
			if tt.none != "" && strings.Contains(c.out.String(), tt.none) {
				t.Errorf("stdout has %q:\n%s", tt.none, c.out.String())
			}
		})
	}
}
