package fsm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// nodeMoves returns the transitions of a machine's node, oldest first: "pending>installing",
// with the trigger.
func nodeMoves(p *fsmtest.Peer, id string) (moves []string) {
	for e := range p.View().History(id, 0) {
		if e.GetFacet() == "node" && e.GetFrom() != "" {
			moves = append([]string{strings.ToLower(e.GetFrom() + ">" + e.GetTo() + " " + e.GetTriggeredBy())}, moves...)
		}
	}
	return moves
}

// TestNodeRoutes checks that a run moves a node along the table of transitions, except for
// the cases in docs/clients.md.
func TestNodeRoutes(t *testing.T) {
	repave := &holdfastv1.Plan{PlanId: "plan/install",
		Steps: []*holdfastv1.Step{{Name: "s", TimeoutSeconds: 60,
			Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}
	join := &holdfastv1.Plan{PlanId: "plan/join", Steps: []*holdfastv1.Step{repave.GetSteps()[0],
		{Name: "j", TimeoutSeconds: 60, Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{}}}}}
	reboot := &holdfastv1.Plan{PlanId: "plan/boot",
		Steps: []*holdfastv1.Step{{Name: "s", TimeoutSeconds: 60,
			Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}}}}
	tests := []struct {
		name   string
		before holdfastv1.Node_State
		plan   *holdfastv1.Plan
		end    holdfastv1.Attempt_Outcome
		want   []string
	}{
		{"installed and joined", holdfastv1.Node_DISCOVERED, join, succeeded,
			[]string{"discovered>pending operator", "pending>installing run", "installing>installed run",
				"installed>active run"}},
		{"failed", holdfastv1.Node_PENDING, repave, failed, []string{"pending>installing run",
			"installing>install_failed run"}},
		{"canceled", holdfastv1.Node_PENDING, repave, canceled, []string{"pending>installing run",
			"installing>install_failed run", "install_failed>pending run"}},
		{"in service", holdfastv1.Node_ACTIVE, repave, succeeded,
			[]string{"active>reprovision operator", "reprovision>pending operator", "pending>installing run",
				"installing>installed run"}},
		{"after a failure", holdfastv1.Node_INSTALL_FAILED, repave, succeeded,
			[]string{"install_failed>pending operator", "pending>installing run", "installing>installed run"}},
		{"a reboot in service", holdfastv1.Node_ACTIVE, reboot, succeeded, nil},
		{"a reboot after a failed install", holdfastv1.Node_INSTALL_FAILED, reboot, succeeded, nil},
		{"a reboot that fails", holdfastv1.Node_ACTIVE, reboot, failed, []string{"active>installed run"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, &internalv1.LeaderEstablished{PeerId: "p1", Term: 1})
			for _, plan := range []*holdfastv1.Plan{repave, join, reboot} {
				do(t, p, &internalv1.CreatePlan{Plan: plan})
			}
			do(t, p, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "02:00:00:00:00:01"})
			runs := 0
			run := func(plan *holdfastv1.Plan, end holdfastv1.Attempt_Outcome) {
				t.Helper()
				runs++
				id := strings.Repeat("r", runs) + "un-0001"
				do(t, p, &internalv1.StartRun{RunId: id, MachineId: "m-1", RequestId: id, PlanId: plan.GetPlanId(),
					DefaultTimeoutSeconds: 60})
				for _, s := range plan.GetSteps() {
					do(t, p, &internalv1.BeginAttempt{RunId: id, Step: s.GetName(), Attempt: 1})
					if end == canceled {
						do(t, p, &internalv1.CancelRun{RunId: id, Reason: "test"})
					}
					do(t, p, &internalv1.EndAttempt{RunId: id, Step: s.GetName(), Attempt: 1, Outcome: end, Permanent: true,
						Error: "no link"})
				}
			}
			switch tt.before {
			case holdfastv1.Node_PENDING:
				do(t, p, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING})
			case holdfastv1.Node_ACTIVE:
				run(join, succeeded)
			case holdfastv1.Node_INSTALL_FAILED:
				run(repave, failed)
			}
			had := len(nodeMoves(p, "m-1"))
			if got := getMachine(t, p, "m-1").GetStatus().GetNodeState(); got != tt.before {
				t.Fatalf("before: %s, want %s", got, tt.before)
			}
			run(tt.plan, tt.end)
			if diff := cmp.Diff(tt.want, nodeMoves(p, "m-1")[had:]); diff != "" && len(tt.want)+
				len(nodeMoves(p, "m-1")[had:]) > 0 {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInstallCounters checks that failed attempts of executed runs count like reported ones,
// and that three of them require force.
func TestInstallCounters(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.LeaderEstablished{PeerId: "p1", Term: 1})
	two := int32(2)
	do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/install",
		Steps: []*holdfastv1.Step{{Name: "s", TimeoutSeconds: 60, MaxRetries: &two,
			Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}})
	do(t, p, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "02:00:00:00:00:01"})
	do(t, p, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING})
	do(t, p, &internalv1.StartRun{RunId: "run-0001", MachineId: "m-1", RequestId: "r", PlanId: "plan/install",
		DefaultTimeoutSeconds: 60})
	for n := int32(1); n <= 3; n++ {
		do(t, p, &internalv1.BeginAttempt{RunId: "run-0001", Step: "s", Attempt: n})
		do(t, p, &internalv1.EndAttempt{RunId: "run-0001", Step: "s", Attempt: n, Outcome: failed, Error: "no disk"})
		if got := getMachine(t, p, "m-1").GetNode(); got.GetInstallAttempts() != n || got.GetLastInstallError() != "no disk" {
			t.Errorf("after attempt %d: %d attempts, %q", n, got.GetInstallAttempts(), got.GetLastInstallError())
		}
	}
	refused(t, p, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING}, fsm.FailedPrecondition,
		fsm.ReasonInstallAttempts)
	do(t, p, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING, Force: true})
	if got := getMachine(t, p, "m-1").GetNode(); got.GetInstallAttempts() != 0 || got.GetLastInstallError() != "" ||
		got.GetApprovedAt() == nil {
		t.Errorf("after the reset: %v", got)
	}
}
