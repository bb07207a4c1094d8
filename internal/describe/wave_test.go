package describe

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestWave(t *testing.T) {
	now := time.Now()
	at := timestamppb.New(now)
	fails := func(state holdfastv1.WaveMachine_State, run, text string) *holdfastv1.WaveMachine {
		return &holdfastv1.WaveMachine{MachineId: "m-7", RunId: run, State: state, Error: text}
	}
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
			"Stopping: canceled: wrong image. It starts no more runs, and waits for 1 active."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPING, CancelRequestedAt: at, CanceledBy: "token:eve", Active: 2,
			HoldsUp: &holdfastv1.WaveMachine{MachineId: "m-5", RunId: "run-5", Wait: &holdfastv1.Wait{
				Kind: holdfastv1.Wait_ANSWER, Subject: "BMC", Since: timestamppb.New(now.Add(-50 * time.Second))}}},
			"Stopping: canceled by token:eve, no reason was given. It starts no more runs, and waits for 2 active: " +
				"m-5 (run-5) has waited 50s for the BMC to answer."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_SUCCEEDED, Succeeded: 5, Total: 5},
			"Succeeded: the runs of all machines succeeded."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_FAILED, Succeeded: 4999, Failed: 1, Total: 5000, MaxFailures: 1},
			"Failed: all runs were started, 4 999 of 5 000 succeeded."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_FAILED, Succeeded: 1, Canceled: 1, Total: 2, MaxFailures: 1,
			LastFailure: fails(holdfastv1.WaveMachine_CANCELED, "run-7", "canceled: no")},
			"Failed: all runs were started, 1 of 2 succeeded; last, m-7 (run-7) was canceled: canceled: no."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Failed: 1, Canceled: 1, Refused: 1, MaxFailures: 2, NotStarted: 7},
			"Stopped: 3 machines have failed, more than the limit of 2. 7 machines were not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Failed: 1, NotStarted: 1,
			LastFailure: fails(holdfastv1.WaveMachine_FAILED, "run-7", "the disk is gone")},
			"Stopped: 1 machine has failed, more than the limit of 0; last, m-7 (run-7) failed: the disk is gone. " +
				"1 machine was not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Refused: 1, NotStarted: 1,
			LastFailure: fails(holdfastv1.WaveMachine_REFUSED, "", "it has no BMC")},
			"Stopped: 1 machine has failed, more than the limit of 0; last, m-7 could not start: it has no BMC. " +
				"1 machine was not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_CANCELED, CancelRequestedAt: at, NotStarted: 1},
			"Canceled, no reason was given. 1 machine was not started."},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_CANCELED, CancelRequestedAt: at, CancelReason: "enough"},
			"Canceled: enough. 0 machines were not started."},
	} {
		seen[tt.wave.GetPhase()] = true
		if got := Wave(tt.wave, now); got != tt.want {
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
	ended := map[holdfastv1.WaveMachine_State]bool{0: true, holdfastv1.WaveMachine_SUCCEEDED: true,
		holdfastv1.WaveMachine_FAILED: true, holdfastv1.WaveMachine_CANCELED: true}
	sentences := map[holdfastv1.WaveMachine_State]string{
		holdfastv1.WaveMachine_WAITING:     "waits for its turn in wave w-1",
		holdfastv1.WaveMachine_NOT_STARTED: "wave w-1 starts no run on it any more",
		holdfastv1.WaveMachine_ACTIVE:      "the run is part of wave w-1",
		holdfastv1.WaveMachine_REFUSED:     "wave w-1 could not start a run: no BMC",
	}
	for n := range holdfastv1.WaveMachine_State_name {
		state := holdfastv1.WaveMachine_State(n)
		want, ok := sentences[state]
		if !ok && !ended[state] {
			t.Errorf("no sentence of state %s is tested", state)
		}
		got := WaveMachine(&holdfastv1.Wave{WaveId: "w-1"}, &holdfastv1.WaveMachine{State: state, Error: "no BMC"})
		if got != want {
			t.Errorf("%s: got %q, want %q", state, got, want)
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
