package describe

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestWave(t *testing.T) {
	at := timestamppb.Now()
	seen := map[holdfastv1.Wave_Phase]bool{}
	for _, tt := range []struct {
		wave *holdfastv1.Wave
		want string
	}{
		{&holdfastv1.Wave{}, ""},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_RUNNING, Active: 20, Waiting: 1204}, "Running: 20 active, 1 204 waiting."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPING, Failed: 1, Active: 3},
			"Stopping: 1 machine has failed, more than the limit of 0. It starts no more runs, and waits for 3 active."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPING, CancelRequestedAt: at, CancelReason: "wrong image", Active: 1},
			"Stopping: wrong image. It starts no more runs, and waits for 1 active."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_SUCCEEDED, Succeeded: 5, Total: 5},
			"Succeeded: the runs of all machines succeeded."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_FAILED, Succeeded: 4999, Failed: 1, Total: 5000, MaxFailures: 1},
			"Failed: all runs were started, 4 999 of 5 000 succeeded."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Failed: 1, Canceled: 1, Refused: 1, MaxFailures: 2, Waiting: 7},
			"Stopped: 3 machines have failed, more than the limit of 2. 7 machines were not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_CANCELED, CancelRequestedAt: at, Waiting: 1},
			"Canceled: no reason was given. 1 machine was not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_CANCELED, CancelRequestedAt: at, CancelReason: "enough"},
			"Canceled: enough. 0 machines were not started."},
	} {
		seen[tt.wave.GetPhase()] = true
		if got := Wave(tt.wave); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.wave, got, tt.want)
		}
	}
	for n := range holdfastv1.Wave_Phase_name {
		if !seen[holdfastv1.Wave_Phase(n)] {
			t.Errorf("no sentence of phase %s is tested", holdfastv1.Wave_Phase(n))
		}
	}
}

func TestWaveMachine(t *testing.T) {
	running, stopping := holdfastv1.Wave_RUNNING, holdfastv1.Wave_STOPPING
	ended := map[holdfastv1.WaveMachine_State]bool{0: true, holdfastv1.WaveMachine_SUCCEEDED: true,
		holdfastv1.WaveMachine_FAILED: true, holdfastv1.WaveMachine_CANCELED: true}
	sentences := map[holdfastv1.WaveMachine_State][2]string{ // while the wave runs, and while it stops
		holdfastv1.WaveMachine_WAITING: {"waits for its turn in wave w-1", "wave w-1 starts no run on it any more"},
		holdfastv1.WaveMachine_ACTIVE:  {"the run is part of wave w-1", "the run is part of wave w-1"},
		holdfastv1.WaveMachine_REFUSED: {"wave w-1 could not start a run: no BMC", "wave w-1 could not start a run: no BMC"},
	}
	for n := range holdfastv1.WaveMachine_State_name {
		state := holdfastv1.WaveMachine_State(n)
		want, ok := sentences[state]
		if !ok && !ended[state] {
			t.Errorf("no sentence of state %s is tested", state)
		}
		for i, phase := range []holdfastv1.Wave_Phase{running, stopping} {
			got := WaveMachine(&holdfastv1.Wave{WaveId: "w-1", Phase: phase},
				&holdfastv1.WaveMachine{State: state, Error: "no BMC"})
			if got != want[i] {
				t.Errorf("%s, wave %s: got %q, want %q", state, phase, got, want[i])
			}
		}
	}
}

func TestMachines(t *testing.T) {
	var got []string
	for _, n := range []int32{0, 1, 2, 999, 1000, 1234567} {
		got = append(got, Machines(n))
	}
	want := "0 machines, 1 machine, 2 machines, 999 machines, 1 000 machines, 1 234 567 machines"
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
