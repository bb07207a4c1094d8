package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// failsOnRequest is a leader task beside the executor.
type failsOnRequest chan error

func (f failsOnRequest) Run(ctx context.Context, _ leader.Term) error {
	select {
	case err := <-f:
		return err
	case <-ctx.Done():
		return nil
	}
}

// TestOpenAttemptContinuesOnSinglePeer stops the leader's tasks in the middle of an attempt. No
// other peer can adopt it, so the same one must.
func TestOpenAttemptContinuesOnSinglePeer(t *testing.T) {
	why := errors.New("task failed")
	for _, tc := range []struct {
		name string
		stop func(*cluster.Peer, failsOnRequest) error
	}{
		{"failed task", func(_ *cluster.Peer, f failsOnRequest) error { f <- why; return nil }},
		{"failed interlude", func(n *cluster.Peer, _ failsOnRequest) error {
			if err := n.PauseTasks(t.Context(), func(context.Context) error { return why }); !errors.Is(err, why) {
				return fmt.Errorf("interlude: got %w, want %w", err, why)
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fleet := fake.NewFleet(fake.Config{PowerTime: fake.Duration(2 * time.Second)})
			set := providers.SetOf(map[string]providers.Provider{"fake": fake.New(fleet)})
			var self *clustertest.Peer
			fails := make(failsOnRequest)
			clustertest.Start(t, clustertest.Options{Peers: 1, Register: func(_ int, p *clustertest.Peer) { self = p },
				Work: func(int) cluster.Work {
					return cluster.Work{Tasks: []leader.Task{runs.New(runs.Config{}, self.Node, self.FSM, set), fails}}
				}})
			clustertest.Eventually(t, 30*time.Second, "the peer to lead", func() error {
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
			clustertest.Eventually(t, 30*time.Second, "the end of the run", func() error {
				if run, _ := self.FSM.View().Run("run-1"); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					return fmt.Errorf("run is %s: %v", run.GetPhase(), run.GetWait())
				}
				return nil
			})
			if all := attempts(); len(all) != 1 || len(all[0].GetEpochs()) != 2 {
				t.Errorf("attempts: got %v, want one, of two epochs", all)
			}
		})
	}
}
