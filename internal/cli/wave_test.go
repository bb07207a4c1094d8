package cli

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// fakeWaves has one wave, which ends as it is set to when its counts are read.
type fakeWaves struct {
	holdfastv1.UnimplementedWaveServiceServer
	mu    sync.Mutex
	wave  *holdfastv1.Wave // nil: none has been started
	ends  *holdfastv1.Wave // merged into it at the next list; nil: it does not end
	reads int
}

func (f *fakeWaves) StartWave(_ context.Context, r *holdfastv1.StartWaveRequest) (*holdfastv1.Wave, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &holdfastv1.Wave{WaveId: r.GetRequestId(), Type: r.GetType(), MaxParallel: r.GetMaxParallel(),
		Total: int32(len(r.GetMachineIds())), Phase: holdfastv1.Wave_RUNNING}
	if !r.GetValidateOnly() {
		f.wave = w
	}
	return proto.CloneOf(w), nil
}

func (f *fakeWaves) GetWave(_ context.Context, r *holdfastv1.GetWaveRequest) (*holdfastv1.Wave, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wave == nil || f.wave.GetWaveId() != r.GetWaveId() {
		return nil, status.Error(codes.NotFound, "no such wave")
	}
	return proto.CloneOf(f.wave), nil
}

func (f *fakeWaves) ListWaves(context.Context, *holdfastv1.ListWavesRequest) (*holdfastv1.ListWavesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.ends != nil {
		proto.Merge(f.wave, f.ends)
		f.wave.FinishedAt = timestamppb.Now()
	}
	return &holdfastv1.ListWavesResponse{Waves: []*holdfastv1.Wave{proto.CloneOf(f.wave)}}, nil
}

func (f *fakeWaves) CancelWave(_ context.Context, r *holdfastv1.CancelWaveRequest) (*holdfastv1.Wave, error) {
	return &holdfastv1.Wave{WaveId: r.GetWaveId(), Phase: holdfastv1.Wave_STOPPING, CancelReason: r.GetReason()}, nil
}

func (f *fakeWaves) RetryWave(_ context.Context, r *holdfastv1.RetryWaveRequest) (*holdfastv1.Wave, error) {
	return &holdfastv1.Wave{WaveId: r.GetRequestId(), Type: "REBOOT", Total: 1, RetryOf: r.GetWaveId(),
		Machines: []*holdfastv1.WaveMachine{{MachineId: "m-123"}}}, nil
}

// inWave returns an event of a machine's run.
func inWave(cursor uint64, machine string, phase holdfastv1.Run_Phase) *holdfastv1.RunEvent {
	return transition(cursor, &holdfastv1.Run{RunId: "run-" + machine, MachineId: machine, Phase: phase, Revision: 20 +
		cursor}, "")
}

func TestLeaderWave(t *testing.T) {
	well := &holdfastv1.Wave{Phase: holdfastv1.Wave_SUCCEEDED, Succeeded: 3}
	bad := &holdfastv1.Wave{Phase: holdfastv1.Wave_STOPPED, Succeeded: 1, Failed: 1, NotStarted: 1,
		Machines: []*holdfastv1.WaveMachine{{MachineId: "m-124", State: holdfastv1.WaveMachine_FAILED},
			{MachineId: "m-125", State: holdfastv1.WaveMachine_NOT_STARTED}}}
	start := "wave start --selector x --type REBOOT --wave w-1 --max-parallel 2"
	for _, tt := range []struct {
		name, args string
		ends       *holdfastv1.Wave
		want       int
		stderr     []string
	}{
		{"success", start, well, app.ExitOK, []string{"\nw-1: 3 machines, at most 2 at a time\n",
			"\nw-1: 3 of 3 done, 0 failed. Succeeded: the runs of all machines succeeded.\n"}},
		{"failures", start, bad, app.ExitRunFailed, []string{"\nw-1: 2 of 3 done, 1 failed. Stopped: 1 machine has " +
			"failed, more than the limit of 0. 1 machine was not started.\n", "error: wave w-1: STOPPED: " +
			"1 of 3 machines succeeded; failed: 1 (m-124); not started: 1 (m-125)", "holdfast wave retry w-1"}},
		{"detached", start + " --detach", nil, app.ExitOK, []string{"\nw-1: 3 machines",
			"\nw-1: it goes on: follow it with: holdfast wave watch w-1\n"}},
		{"time is up", start + " --wait=1s", nil, app.ExitTimeout, []string{"it goes on", "holdfast wave watch w-1"}},
		{"run start", "run" + strings.TrimPrefix(start, "wave"), well, app.ExitOK, []string{"3 of 3 done"}},
		{"a plan that erases needs a confirmation",
			strings.Replace(start, "--type REBOOT", "--plan plan-repave-ubuntu-2204-v1", 1),
			nil, app.ExitUsage, []string{"3 machines", "pass --yes"}},
		{"no selector", "wave start --type REBOOT", nil, app.ExitUsage, []string{"wave start: --selector is missing"}},
		{"cancel", "wave cancel w-1 --reason no --yes", nil, app.ExitOK, nil},
		{"retry", "wave retry w-1 --detach", nil, app.ExitOK, []string{": 1 machine, at most"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			f.waves, f.open = &fakeWaves{ends: tt.ends}, true
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, strings.Fields(tt.args)...), tt.want)
			wantIn(t, "stderr", "\n"+c.err.String(), tt.stderr...)
			if n := len(asked[*holdfastv1.StartRunRequest](f)); n > 0 {
				t.Errorf("the client has started %d runs, want none: the leader does", n)
			}
		})
	}
}

// TestWaveStartHelp checks that the help of wave start has no flag that a wave refuses.
func TestWaveStartHelp(t *testing.T) {
	help := helpOf(t, nil, "wave", "start")
	for _, text := range []string{"--request-id", "with --selector:", "until the run has ended"} {
		if strings.Contains(help, text) {
			t.Errorf("got %q in the help of wave start:\n%s", text, help)
		}
	}
}

// TestWaveWhy checks that a wave says why it stopped.
func TestWaveWhy(t *testing.T) {
	f := fixture()
	f.waves = &fakeWaves{wave: &holdfastv1.Wave{WaveId: "w-1", Phase: holdfastv1.Wave_STOPPED, Total: 3, Failed: 1,
		NotStarted: 2, LastFailure: &holdfastv1.WaveMachine{MachineId: "m-7", RunId: "run-7", Error: "the disk is gone"}}}
	startCluster(t, f)
	for _, args := range []string{"wave get w-1", "wave list"} {
		var c command
		c.wantCode(t, c.run(t, f, strings.Fields(args)...), app.ExitOK)
		wantIn(t, "stdout", c.out.String(), "1 machine has failed, more than the limit of 0; last, m-7 (run-7) failed: "+
			"the disk is gone. 2 machines were not started.")
	}
}

// TestTokenOfWaves checks that the active waves of a revoked token are named.
func TestTokenOfWaves(t *testing.T) {
	f := fixture()
	f.waves = &fakeWaves{wave: &holdfastv1.Wave{WaveId: "w-1", Principal: "token:ci", Phase: holdfastv1.Wave_RUNNING}}
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "token", "revoke", "tok-2", "--yes"), app.ExitOK)
	wantIn(t, "stderr", c.err.String(), "revoked token tok-2",
		"w-1: started by token:ci, continues: end it with: holdfast wave cancel w-1\n")
	want := `principal = "token:ci" AND (phase = RUNNING OR phase = STOPPING)`
	if all := asked[*holdfastv1.ListWavesRequest](f); len(all) != 1 || all[0].GetFilter() != want {
		t.Errorf("got %v, want one list of %s", all, want)
	}
}

// TestGeneratedWaveIDs checks that a generated id is short, because people type it.
func TestGeneratedWaveIDs(t *testing.T) {
	a, b := newWaveID(), newWaveID()
	if a == b || !regexp.MustCompile(`^wave-[0-9a-f]{16}$`).MatchString(a) {
		t.Errorf("got %s and %s, want two of 16 hex digits", a, b)
	}
}
