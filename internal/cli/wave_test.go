package cli_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

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
			f := clitest.Fixture()
			f.Waves, f.Open = &clitest.Waves{Ends: tt.ends}, true
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), tt.want)
			clitest.WantIn(t, "stderr", "\n"+c.Err.String(), tt.stderr...)
			if n := len(clitest.Asked[*holdfastv1.StartRunRequest](f)); n > 0 {
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
	f := clitest.Fixture()
	f.Waves = &clitest.Waves{Wave: &holdfastv1.Wave{WaveId: "w-1", Phase: holdfastv1.Wave_STOPPED, Total: 3, Failed: 1,
		NotStarted: 2, LastFailure: &holdfastv1.WaveMachine{MachineId: "m-7", RunId: "run-7", Error: "the disk is gone"}}}
	clitest.Start(t, f)
	for _, args := range []string{"wave get w-1", "wave list"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
		clitest.WantIn(t, "stdout", c.Out.String(),
			"1 machine has failed, more than the limit of 0; last, m-7 (run-7) failed: "+
				"the disk is gone. 2 machines were not started.")
	}
}

// TestTokenOfWaves checks that the active waves of a revoked token are named.
func TestTokenOfWaves(t *testing.T) {
	f := clitest.Fixture()
	f.Waves = &clitest.Waves{Wave: &holdfastv1.Wave{WaveId: "w-1", Principal: "token:ci", Phase: holdfastv1.Wave_RUNNING}}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "token", "revoke", "tok-2", "--yes"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "revoked token tok-2",
		"w-1: started by token:ci, continues: end it with: holdfast wave cancel w-1\n")
	want := `principal = "token:ci" AND (phase = RUNNING OR phase = STOPPING)`
	if all := clitest.Asked[*holdfastv1.ListWavesRequest](f); len(all) != 1 || all[0].GetFilter() != want {
		t.Errorf("got %v, want one list of %s", all, want)
	}
}
