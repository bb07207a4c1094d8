package fsm_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A machine keeps its phase in a drain and its end, with any outcome, and the condition Drained has
// the result.
func TestDrainKeepsThePhase(t *testing.T) {
	for _, tt := range []struct {
		plan    string
		outcome holdfastv1.Attempt_Outcome
		drained bool
		issue   string
	}{
		{"plan/drain", succeeded, true, ""},
		{"plan/drain", failed, false, "NeedsIntervention"},
		{"plan/drain", canceled, false, "Canceled"},
		{"plan/uncordon", succeeded, false, ""},
		{"plan/uncordon", failed, false, "NeedsIntervention"},
	} {
		p := machineIn(t, inService)
		observe(t, p, "m", &holdfastv1.Condition{Type: "InCustomerCluster", Status: true, Reason: "KubeletReady",
			ObservedAt: timestamppb.New(p.Now)})
		start(t, p, "m", "r", "", tt.plan)
		if tt.outcome == canceled {
			begin(t, p, "run-r")
			do(t, p, &internalv1.CancelRun{RunId: "run-r"})
			end(t, p, "run-r", canceled)
		} else {
			finish(t, p, "run-r", tt.outcome)
		}
		m := getMachine(t, p, "m")
		issue := ""
		for _, i := range m.GetStatus().GetIssues() {
			issue += i.GetType()
		}
		if m.GetStatus().GetPhase() != inService || m.GetStatus().GetNodeState() != holdfastv1.Node_ACTIVE ||
			cond(m, "Drained").GetStatus() != tt.drained || issue != tt.issue {
			t.Errorf("%s, %s: got %s, drained %t, issues %q; want IN_SERVICE, drained %t, issue %q", tt.plan, tt.outcome,
				m.GetStatus().GetPhase(), cond(m, "Drained").GetStatus(), issue, tt.drained, tt.issue)
		}
		start(t, p, "m", "back", "", "plan/uncordon")
		finish(t, p, "run-back", succeeded)
		if m := getMachine(t, p, "m"); m.GetStatus().GetNeedsAttention() || cond(m, "Drained").GetStatus() {
			t.Errorf("%s, %s, then uncordon: got %v, want nothing to do", tt.plan, tt.outcome, m.GetStatus())
		}
	}
}

// A machine that is in no cluster has no node to drain. One whose node is not Ready, or whose
// cluster cannot be asked, may have one.
func TestDrainNeedsANode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		target  string
		param   string
		seen    *holdfastv1.Condition
		refused bool
	}{
		{"nothing is known", "", "", nil, true},
		{"only the cluster is named", "prod", "", nil, false},
		{"only the run names a cluster", "", "prod", nil, false},
		{"in the cluster", "", "", &holdfastv1.Condition{Status: true, Reason: "KubeletReady"}, false},
		{"not Ready", "", "", &holdfastv1.Condition{Reason: "KubeletNotReady"}, false},
		{"the cluster has no node", "prod", "", &holdfastv1.Condition{Reason: "NodeNotFound"}, true},
		{"that cluster, named again", "prod", "prod", &holdfastv1.Condition{Reason: "NodeNotFound"}, true},
		{"another cluster is named", "prod", "dev", &holdfastv1.Condition{Reason: "NodeNotFound"}, false},
		{"another cluster, but the disk is new", "prod", "dev", &holdfastv1.Condition{Reason: "Repaved"}, true},
		{"the cluster does not answer", "prod", "", &holdfastv1.Condition{Unknown: true, Reason: "ProviderTimeout"}, false},
	} {
		for _, plan := range []string{"plan/drain", "plan/uncordon", "plan/upgrade"} {
			p := fsmtest.NewPeer()
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
				Spec: &holdfastv1.MachineSpec{TargetClusterRef: tt.target}}})
			if tt.seen != nil {
				tt.seen.Type, tt.seen.ObservedAt = "InCustomerCluster", timestamppb.New(p.Now)
				observe(t, p, "m", tt.seen)
			}
			op := &internalv1.StartRun{RunId: "run-r", MachineId: "m", RequestId: "r", PlanId: plan}
			if tt.param != "" {
				op.Params = map[string]string{"cluster_ref": tt.param}
			}
			if tt.refused {
				refused(t, p, op, fsm.FailedPrecondition, "NOT_IN_CLUSTER")
				continue
			}
			do(t, p, op)
		}
	}
}
