package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// failsWhenTold is a leader task beside the executor.
type failsWhenTold chan error

func (f failsWhenTold) Run(ctx context.Context, _ cluster.Term) error {
	select {
	case err := <-f:
		return err
	case <-ctx.Done():
		return nil
	}
}

// TestOpenAttemptGoesOnInAClusterOfOne: nobody else is there to take it over when the leader's work
// has stopped in the middle of it.
func TestOpenAttemptGoesOnInAClusterOfOne(t *testing.T) {
	why := errors.New("it could not be done")
	for _, tc := range []struct {
		name string
		stop func(*cluster.Node, failsWhenTold) error
	}{
		{"a task fails", func(_ *cluster.Node, f failsWhenTold) error { f <- why; return nil }},
		{"an interlude fails", func(n *cluster.Node, _ failsWhenTold) error {
			if err := n.Interlude(t.Context(), func(context.Context) error { return why }); !errors.Is(err, why) {
				return fmt.Errorf("interlude: got %w, want %w", err, why)
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fleet := fake.NewFleet(fake.Config{PowerTime: fake.Duration(2 * time.Second)})
			set := providers.SetOf(map[string]providers.Provider{"fake": fake.New(fleet)})
			var self *clustertest.Peer
			fails := make(failsWhenTold)
			clustertest.Start(t, clustertest.Options{Peers: 1, Register: func(_ int, p *clustertest.Peer) { self = p },
				Tasks: func(int) []cluster.LeaderTask {
					return []cluster.LeaderTask{runs.New(runs.Config{}, self.Node, self.FSM, set), fails}
				}})
			clustertest.Eventually(t, 30*time.Second, "it leads", func() error {
				if !self.Node.Ready() {
					return errors.New(self.Node.Role())
				}
				return nil
			})
			for _, cmd := range []*internalv1.Command{
				{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
					Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{}}}}},
				{Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "p",
					Steps: []*holdfastv1.Step{{Name: "off",
						Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "off", Force: true}}}}}}}},
				{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{RunId: "run-1", MachineId: "m-1",
					RequestId: "r-1", PlanId: "p", DefaultTimeoutSeconds: 60}}},
			} {
				cmd.FeatureLevel = 1
				if _, err := self.Node.Apply(t.Context(), cmd); err != nil {
					t.Fatal(err)
				}
			}
			attempts := func() []*holdfastv1.Attempt {
				run, _ := self.FSM.View().Run("run-1")
				return run.GetSteps()[0].GetAttempts()
			}
			clustertest.Eventually(t, 30*time.Second, "an open attempt", func() error {
				if all := attempts(); len(all) != 1 || !fsm.Open(all[0]) {
					return fmt.Errorf("got %v", all)
				}
				return nil
			})
			if err := tc.stop(self.Node, fails); err != nil {
				t.Fatal(err)
			}
			clustertest.Eventually(t, 30*time.Second, "the run's end", func() error {
				if run, _ := self.FSM.View().Run("run-1"); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					return fmt.Errorf("it is %s: %s", run.GetPhase(), run.GetWaitingFor())
				}
				return nil
			})
			if all := attempts(); len(all) != 1 || len(all[0].GetEpochs()) != 2 {
				t.Errorf("got attempts %v, want one, of two epochs", all)
			}
		})
	}
}
