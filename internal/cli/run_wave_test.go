package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// inWave returns an event of a machine's run.
func inWave(cursor uint64, machine string, phase holdfastv1.Run_Phase) *holdfastv1.RunEvent {
	return transition(cursor, &holdfastv1.Run{RunId: "run-" + machine, MachineId: machine, Phase: phase, Revision: 20 +
		cursor}, "")
}

func TestWave(t *testing.T) {
	well := []*holdfastv1.RunEvent{inWave(1, "m-123", holdfastv1.Run_SUCCEEDED),
		inWave(2, "m-124", holdfastv1.Run_SUCCEEDED), inWave(3, "m-125", holdfastv1.Run_SUCCEEDED)}
	bad := []*holdfastv1.RunEvent{well[0], inWave(2, "m-124", holdfastv1.Run_FAILED), well[2]}
	refuses := func(machine string, err error) func(proto.Message) error {
		return func(req proto.Message) error {
			if r, ok := req.(*holdfastv1.StartRunRequest); ok && r.GetMachineId() == machine {
				return err
			}
			return nil
		}
	}
	for _, tt := range []struct {
		name    string
		args    []string
		events  []*holdfastv1.RunEvent
		refuse  func(proto.Message) error
		want    int
		started []string
		stderr  []string
	}{
		{"success", nil, well, nil, ExitOK, []string{"m-123", "m-124", "m-125"},
			[]string{"machines to start: 3, started before: 0", "m-125 run-m-125 SUCCEEDED: 3 of 3 done, 0 failed, 0 active"}},
		{"allowed failure", []string{"--max-failures", "1"}, bad, nil, ExitRunFailed, []string{"m-123", "m-124", "m-125"},
			[]string{"2 of 3 machines succeeded; failed: 1, refused: 0\n"}},
		{"failure above the limit", nil, bad, nil, ExitRunFailed, []string{"m-123", "m-124"},
			[]string{"1 of 3 machines succeeded; failed: 1, refused: 0, not started: 1", "--max-failures 1 and --wave wave-"}},
		{"refusal", []string{"--max-failures", "1"}, []*holdfastv1.RunEvent{well[0], well[2]},
			refuses("m-124", refusal(t, codes.FailedPrecondition, "it has an active run")), ExitRunFailed, []string{"m-123",
				"m-124", "m-125"},
			[]string{"start run on machine m-124: it has an active run", "2 of 3 machines succeeded; failed: 0, refused: 1\n"}},
		{"no start allowed", []string{"--max-failures", "3"}, well,
			refuses("m-124", refusal(t, codes.Unauthenticated, "who is it?")), ExitError, []string{"m-123", "m-124"},
			[]string{"runs that continue: 0, machines that are not started: 2: continue with the same command and --wave wave-",
				"who is it?"}},
		{"continue after an earlier failure", []string{"--wave", "req-1", "--max-failures", "1"},
			[]*holdfastv1.RunEvent{well[0], well[2]}, nil, ExitRunFailed, []string{"m-123", "m-125"},
			[]string{"req-1: machines to start: 2, started before: 1", "2 of 3 machines succeeded; failed: 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			f.events, f.open, f.refuse = tt.events, true, tt.refuse
			startCluster(t, f)
			var c command
			args := append([]string{"run", "start", "--selector", "phase = READY", "--type", "REBOOT", "--max-parallel", "1",
				"--wait"}, tt.args...)
			c.wantCode(t, c.run(t, f, args...), tt.want)
			wantIn(t, "stderr", c.err.String(), tt.stderr...)
			var started []string
			starts := asked[*holdfastv1.StartRunRequest](f)
			for _, r := range starts {
				started = append(started, r.GetMachineId())
				if r.GetRequestId() != starts[0].GetRequestId() || r.GetType() != "REBOOT" {
					t.Errorf("got request %v, want the common type and id", r)
				}
			}
			if diff := cmp.Diff(tt.started, started); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			if got := asked[*holdfastv1.ListMachinesRequest](f)[0].GetFilter(); got != "phase = READY" {
				t.Errorf("got filter %q, want the selector", got)
			}
		})
	}
}

func TestWaveInterrupted(t *testing.T) {
	f := fixture()
	f.events, f.open = []*holdfastv1.RunEvent{inWave(1, "m-123", holdfastv1.Run_SUCCEEDED)}, true
	startCluster(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := command{ctx: ctx}
	done := make(chan int)
	go func() {
		done <- c.run(t, f, "run", "start", "--selector", "phase = READY", "--type", "REBOOT", "--max-parallel", "1")
	}()
	eventually(t, "the second start", func() bool { return len(asked[*holdfastv1.StartRunRequest](f)) == 2 })
	eventually(t, "the end of the first", func() bool { return strings.Contains(c.err.String(), "1 of 3 done") })
	cancel()
	c.wantCode(t, <-done, ExitError)
	id := asked[*holdfastv1.StartRunRequest](f)[0].GetRequestId()
	wantIn(t, "stderr", c.err.String(), "wave "+id+": interrupted: runs that continue: ",
		"continue with the same command and --wave "+id)
}

// TestWaveThatCannotContinue checks that an error of a call is not reported as the timeout of the
// wave, and the other way round.
func TestWaveThatCannotContinue(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   string
		refuse error // the error of starts
		want   int
		stderr string
	}{
		// Each needs one answer within its time, also on a busy machine.
		{"no peer answers", "--wait=1m --timeout 3s", refusal(t, codes.Unavailable, "no leader"), ExitUnavailable,
			"no leader"},
		{"too many calls", "--wait=1m --timeout 3s", tooMany(t), ExitError, "slow down"},
		{"wait timeout", "--wait=1s", nil, ExitTimeout,
			"time is up: runs that continue: 1, machines that are not started: 2"},
		{"command timeout", "--wait --timeout 1s", nil, ExitTimeout,
			"time is up: runs that continue: 1, machines that are not started: 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			f.open = true
			f.refuse = func(req proto.Message) error {
				if _, starts := req.(*holdfastv1.StartRunRequest); starts {
					return tt.refuse
				}
				return nil
			}
			startCluster(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(20*time.Second, cancel).Stop() // of a command that waits forever
			c := command{ctx: ctx}
			args := strings.Fields("run start --selector x --type REBOOT --max-parallel 1 --max-failures 9 " + tt.args)
			c.wantCode(t, c.run(t, f, args...), tt.want)
			wantIn(t, "stderr", c.err.String(), tt.stderr, "continue with the same command and --wave wave-")
		})
	}
}

// TestLimitedWave checks that a refused start is retried, and is no failure.
func TestLimitedWave(t *testing.T) {
	f := fixture()
	f.open = true
	f.events = []*holdfastv1.RunEvent{inWave(1, "m-123", holdfastv1.Run_SUCCEEDED),
		inWave(2, "m-124", holdfastv1.Run_SUCCEEDED), inWave(3, "m-125", holdfastv1.Run_SUCCEEDED)}
	away, turned := tooMany(t), map[string]bool{}
	f.refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.StartRunRequest); ok && !turned[r.GetMachineId()] {
			turned[r.GetMachineId()] = true
			return away
		}
		return nil
	}
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "run", "start", "--selector", "x", "--type", "REBOOT", "--wait"), ExitOK)
	if got := len(asked[*holdfastv1.StartRunRequest](f)); got != 6 {
		t.Errorf("got %d starts, want each of three twice", got)
	}
}

func TestWaveUsage(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"--type REBOOT", "MACHINE is missing"},
		{"m-1 --selector x --type REBOOT", "give either MACHINE or --selector"},
		{"m-1 --type REBOOT --max-parallel 2", "--max-parallel: only for a wave: pass --selector"},
		{"m-1 --type REBOOT --wave w", "--wave: only for a wave"},
		{"--selector x --type REBOOT --request-id r", "give --wave"},
		{"--selector x --type REBOOT --max-parallel 0", "--max-parallel: 0: give 1 or more"},
		{"--selector x --type REBOOT --max-failures -1", "--max-failures: -1: give 0 or more"},
		{"--selector x", "give --type"},
	} {
		var c command
		c.wantCode(t, c.run(t, nil, append([]string{"run", "start"}, strings.Fields(tt.args)...)...), ExitUsage)
		wantIn(t, "stderr", c.err.String(), tt.want)
	}
	f := startCluster(t, &fakeCluster{})
	var c command
	c.wantCode(t, c.run(t, f, "run", "start", "--selector", "phase = READY", "--type", "REBOOT"), ExitNotFound)
	wantIn(t, "stderr", c.err.String(), `no machine matches "phase = READY"`)
}
