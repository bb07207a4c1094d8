package crash

import (
	"fmt"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestCancelSurvivesLeaderCrash checks that an acknowledged cancel takes effect although the leader
// dies at once: the run is canceled, and its command is killed.
func TestCancelSurvivesLeaderCrash(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("wait", step("wait", &holdfastv1.SshCommand{Script: "seq 10\nsleep 600\n"}),
		step("never", &holdfastv1.Reboot{Mode: "bmc"}))
	for round := range 4 {
		machine := fmt.Sprintf("m-%d", round)
		c.Register(machine)
		leader := c.TheLeader()
		id := c.Start(machine, "wait").GetRunId()
		harness.Until(t, "the command to run", func() (bool, any) {
			n := harness.Count(c.Effects(machine, ""), "command")
			return n > 0, n
		})
		if _, err := c.Client.Runs().CancelRun(t.Context(), &holdfastv1.CancelRunRequest{RunId: id,
			Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		run := c.Ended(id)
		if run.GetPhase() != holdfastv1.Run_CANCELED || run.GetCancelReason() != "test" {
			t.Errorf("run: got %s (%v), want CANCELED", run.GetPhase(), run.GetError())
		}
		effects := c.Effects(machine, "")
		for _, problem := range append(harness.Judge(run, effects), harness.JudgeMachine(c.Hardware(machine), effects)...) {
			t.Error(problem)
		}
		if harness.Count(effects, "command") != 1 || harness.Count(effects, "kill") != 1 || len(effects) != 2 {
			t.Errorf("effects: got %+v, want one command and one kill", effects)
		}
		m, err := c.Client.Machines().GetMachine(t.Context(), &holdfastv1.GetMachineRequest{MachineId: machine})
		if err != nil || m.GetStatus().GetActiveRunId() != "" ||
			m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE {
			t.Errorf("machine: got %v (%v), want MAINTENANCE without an active run", m.GetStatus(), err)
		}
		c.Restart(leader)
	}
}
