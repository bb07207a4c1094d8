package fsm_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestRetiredMachineStaysRetired checks that no request of operators, runs, agents or installers
// revives a retired machine. It gets no run, so it is neither installed nor joined to a
// cluster, and no session, so it boots its disk.
func TestRetiredMachineStaysRetired(t *testing.T) {
	p := nodePeer(t)
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu", Provider: "lambda"}})
	do(t, p, move("m-1", nodeRetired, false))
	var ways []proto.Message
	for i, plan := range fsm.DefaultPlans() {
		ways = append(ways, startOp("m-1", fmt.Sprintf("plan-%d", i), "", plan.GetPlanId()))
	}
	for _, kind := range []string{"REPAVE", "REPROVISION", "REBOOT", "UPGRADE", "RMA"} {
		ways = append(ways, startOp("m-1", "of-"+kind, kind, ""))
	}
	for _, force := range []bool{false, true} {
		for s := range holdfastv1.Node_State_name {
			ways = append(ways, move("m-1", holdfastv1.Node_State(s), force))
		}
	}
	for phase := range holdfastv1.MachineStatus_Phase_name {
		ways = append(ways, &internalv1.SetMachinePhase{MachineId: "m-1", Phase: holdfastv1.MachineStatus_Phase(phase)})
	}
	for _, status := range []string{"started", "progress", "complete", "failed"} {
		ways = append(ways, reportOp(p, status))
	}
	m, _ := p.View().Machine("m-1")
	ways = append(ways, agentOp("m-1", "gpu"), &internalv1.CreateAgentMachine{MachineId: "m-1", Pool: "gpu",
		PendingTtlMs: 1000},
		&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: m.GetSpec(),
			Status: &holdfastv1.MachineStatus{Phase: ready}}},
		&internalv1.CreateNode{MachineId: "m-2", MacAddress: "AA-BB-CC-DD-EE-01",
			Node: &holdfastv1.NodeRecord{Hostname: "n1"}},
		&internalv1.OpenInstall{RunId: "run-of-REPAVE", Step: "repave", Attempt: 1, Image: "debian"})
	for _, op := range ways {
		r := p.Do(op)
		m, ok := p.View().Machine("m-1")
		s := m.GetStatus()
		if !ok || s.GetPhase() != retired || s.GetNodeState() != holdfastv1.Node_RETIRED || s.GetActiveRunId() != "" {
			t.Fatalf("%s %v (refused: %v): the machine is %s, %s, with the run %q", op.ProtoReflect().Descriptor().Name(), op,
				r.Err, s.GetPhase(), s.GetNodeState(), s.GetActiveRunId())
		}
		if i, _ := p.View().Install("m-1"); fsm.InstallOpen(i) {
			t.Fatalf("%v: it has an open session: %v", op, i)
		}
		if other, ok := p.View().MachineByMAC("aa:bb:cc:dd:ee:01"); ok && other.GetMachineId() != "m-1" {
			t.Fatalf("%v: its network card is that of %s now", op, other.GetMachineId())
		}
	}
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
}
