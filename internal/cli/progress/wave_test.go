package progress

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestWaveLine(t *testing.T) {
	for _, tt := range []struct {
		wave *holdfastv1.Wave
		want string
	}{
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_RUNNING, Total: 3, Waiting: 3},
			"w-1  ░░░░░░░░░░░░░░░░░░░░ 0 %  0 of 3 done  0 active  3 waiting\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_RUNNING, Total: 6, Waiting: 1, Active: 1, Succeeded: 1, Failed: 1,
			Canceled: 1, Refused: 1}, "w-1  █████████████░░░░░░░ 66 %  4 of 6 done  1 active  1 waiting  3 failed\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPING, Total: 3, NotStarted: 1, Active: 1, Failed: 1,
			HoldsUp: &holdfastv1.WaveMachine{MachineId: "m-5", Wait: &holdfastv1.Wait{
				Kind: holdfastv1.Wait_EFFECT, Subject: "power", Value: "off"}}},
			"w-1  ██████░░░░░░░░░░░░░░ 33 %  1 of 3 done  1 active  0 waiting  1 not started  1 failed  STOPPING\n" +
				"  1 machine has failed, more than the limit of 0. It starts no more runs, " +
				"and waits for 1 active: m-5 waits for the power to be off.\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_SUCCEEDED, Total: 2, Succeeded: 2},
			"w-1  ████████████████████ 100 %  2 of 2 done  0 active  0 waiting  SUCCEEDED\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_FAILED, Total: 2, Succeeded: 1, Failed: 1},
			"w-1  ████████████████████ 100 %  2 of 2 done  0 active  0 waiting  1 failed  FAILED\n" +
				"  all runs were started, 1 of 2 succeeded.\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Total: 2, NotStarted: 1, Failed: 1},
			"w-1  ██████████░░░░░░░░░░ 50 %  1 of 2 done  0 active  0 waiting  1 not started  1 failed  STOPPED\n" +
				"  1 machine has failed, more than the limit of 0. 1 machine was not started.\n"},
		{&holdfastv1.Wave{Phase: holdfastv1.Wave_CANCELED, Total: 1, Canceled: 1, CancelRequestedAt: timestamppb.Now()},
			"w-1  ████████████████████ 100 %  1 of 1 done  0 active  0 waiting  1 failed  CANCELED\n" +
				"  canceled, no reason was given. 0 machines were not started.\n"},
	} {
		tt.wave.WaveId = "w-1"
		if got := format(Wave(tt.wave, time.Now())); got != tt.want {
			t.Errorf("%s:\ngot  %qwant %q", tt.wave.GetPhase(), got, tt.want)
		}
	}
}
