package failpoint

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestWaveProblems checks that the scenarios of waves see a machine that was skipped or started
// twice.
func TestWaveProblems(t *testing.T) {
	row := func(machine, run string, state holdfastv1.WaveMachine_State) *holdfastv1.WaveMachine {
		return &holdfastv1.WaveMachine{MachineId: machine, RunId: run, State: state}
	}
	run := func(machine, id string, phase holdfastv1.Run_Phase) *holdfastv1.Run {
		return &holdfastv1.Run{MachineId: machine, RunId: id, Phase: phase}
	}
	right := &holdfastv1.Wave{Phase: holdfastv1.Wave_FAILED, Total: 3, Succeeded: 2, Refused: 1,
		Machines: []*holdfastv1.WaveMachine{row("a", "run-a", holdfastv1.WaveMachine_SUCCEEDED),
			row("busy", "", holdfastv1.WaveMachine_REFUSED), row("c", "run-c", holdfastv1.WaveMachine_SUCCEEDED)}}
	runs := []*holdfastv1.Run{run("a", "run-a", holdfastv1.Run_SUCCEEDED), run("c", "run-c", holdfastv1.Run_SUCCEEDED)}
	for _, tt := range []struct {
		name string
		wave *holdfastv1.Wave // merged into the right one
		runs []*holdfastv1.Run
		want string // empty: no problem
	}{
		{"right", nil, runs, ""},
		{"skipped", nil, runs[:1], "runs of c in wave : got [], want [run-c SUCCEEDED]"},
		{"twice", nil, append(runs, run("a", "run-2", holdfastv1.Run_SUCCEEDED)),
			"runs of a in wave : got [run-a SUCCEEDED run-2 SUCCEEDED], want [run-a SUCCEEDED]"},
		{"another run", nil, []*holdfastv1.Run{runs[0], run("c", "run-3", holdfastv1.Run_SUCCEEDED)},
			"got [run-3 SUCCEEDED]"},
		{"failed", nil, []*holdfastv1.Run{runs[0], run("c", "run-c", holdfastv1.Run_FAILED)}, "got [run-c FAILED]"},
		{"the busy one", nil, append(runs, run("busy", "run-4", holdfastv1.Run_SUCCEEDED)), "runs of busy in wave : got ["},
		{"wrong counts", &holdfastv1.Wave{Refused: 2}, runs, "want FAILED with 2 succeeded and 1 refused"},
		{"wrong phase", &holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED}, runs, "want FAILED with 2 succeeded and 1 refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := proto.CloneOf(right)
			if tt.wave != nil {
				proto.Merge(w, tt.wave)
			}
			err := waveProblems(w, tt.runs, "busy")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
