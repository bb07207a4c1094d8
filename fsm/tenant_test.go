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

// startRepave returns the start of a run that installs and joins.
func startRepave(plan, cluster string) *internalv1.StartRun {
	c := &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "REPAVE", PlanId: plan,
		CheckedProvider: "fake"}
	if cluster != "" {
		c.Params = map[string]string{"cluster_ref": cluster}
	}
	return c
}

// Every cluster that a run would use is checked, whether the caller, the plan, the machine or
// nobody names it.
func TestClustersOfSteps(t *testing.T) {
	join := &holdfastv1.Plan{PlanId: "plan/join-prod", Steps: []*holdfastv1.Step{{Name: "join",
		Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{ClusterRef: "prod", Role: "worker"}}}}}
	verify := &holdfastv1.Plan{PlanId: "plan/verify-prod", Steps: []*holdfastv1.Step{{Name: "verify",
		Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{ClusterRef: "prod"}}}}}
	wave := func(plan string) proto.Message {
		return &internalv1.StartWave{MachineIds: []string{"m-1"}, Wave: &holdfastv1.Wave{WaveId: "w", PlanId: plan,
			Type: "REPAVE", MaxParallel: 1}}
	}
	rma := &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "RMA", CheckedProvider: "fake"}
	approve := &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING}
	workflow := &internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{WorkflowId: "plan/join-prod"},
		Paths: []string{"workflow_id"}}
	cleared := &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"},
		Paths: []string{"spec.target_cluster_ref"}}
	for _, tt := range []struct {
		name       string
		target     string
		registered []string // clusters of all pools
		op         proto.Message
		refused    bool
	}{
		{"the implied default", "", []string{"default"}, startRepave("", ""), true},
		{"the implied default, not registered", "", nil, startRepave("", ""), true},
		{"a wave into the implied default", "", []string{"default"}, wave(""), true},
		{"the machine's target", "prod", []string{"prod"}, startRepave("", ""), false},
		{"the machine's target, named", "prod", []string{"prod"}, startRepave("", "prod"), false},
		{"a plan that names a cluster", "of-a", []string{"prod"}, startRepave("plan/join-prod", ""), true},
		{"a plan that verifies a cluster", "of-a", []string{"prod"}, startRepave("plan/verify-prod", ""), true},
		{"a plan that names the target", "prod", []string{"prod"}, startRepave("plan/join-prod", ""), false},
		{"a wave of such a plan", "of-a", []string{"prod"}, wave("plan/join-prod"), true},
		{"a drain in the implied default", "", []string{"default"}, rma, true},
		{"a drain by the script", "", nil, rma, false},
		{"a workflow of such a plan", "of-a", []string{"prod"}, workflow, true},
		{"an approval of such a workflow", "of-a", []string{"prod"}, approve, true},
		{"no target any more", "prod", []string{"prod", "default"}, cleared, true},
		{"the pool's own cluster", "", []string{"prod"}, startRepave("", "of-a"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, secretFor("cluster/of-a", "a"))
			for _, name := range tt.registered {
				do(t, p, secretFor("cluster/"+name))
			}
			do(t, p, &internalv1.CreatePlan{Plan: join})
			do(t, p, &internalv1.CreatePlan{Plan: verify})
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Pool: "a", Provider: "fake", TargetClusterRef: tt.target}}})
			if tt.op == proto.Message(approve) {
				do(t, p, workflow)
			}
			for _, who := range []*internalv1.Origin{operator("a"), operator()} {
				r := from(p, who, proto.Clone(tt.op))
				if got := r.Err != nil && r.Err.Reason == fsm.ReasonOutOfScope; got != (tt.refused && who.GetPools() != nil) {
					t.Errorf("%v: got %v, want refused: %t", who.GetPools(), r.Err, tt.refused)
				}
			}
		})
	}
}

// tenants has a plan and pending runs on machines of pools: m-POOL-0 of run-POOL-0, and so on.
func tenants(t *testing.T, kind string, machines int, pools ...string) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	plan(t, p, "plan/x", kind)
	for _, pool := range pools {
		for i := range machines {
			id := fmt.Sprintf("%s-%d", pool, i)
			do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-"+id, pool)})
			start(t, p, "m-"+id, id, "", "plan/x")
		}
	}
	return p
}

// The failures of one pool hold the plan in that pool alone, and its operator releases it.
func TestBrakeOfPool(t *testing.T) {
	for _, kind := range []string{"ssh", "repave"} {
		p := tenants(t, kind, 8, "a", "b")
		for i := range 5 {
			finish(t, p, fmt.Sprint("run-a-", i), failed)
		}
		refused(t, p, &internalv1.BeginAttempt{RunId: "run-a-5", Step: kind, Attempt: 1}, fsm.FailedPrecondition,
			fsm.ReasonPlanHeld)
		if got := getRun(t, p, "run-a-5").GetWait(); got.GetKind() != holdfastv1.Wait_BRAKE || got.GetPool() != "a" {
			t.Errorf("%s: a run of the held pool waits for %v", kind, got)
		}
		finish(t, p, "run-b-0", succeeded)
		if got := getRun(t, p, "run-b-1").GetWait(); got.GetKind() != holdfastv1.Wait_QUEUE {
			t.Errorf("%s: a run of the other pool waits for %v", kind, got)
		}
		wantAnswer(t, "release by another pool", from(p, operator("b"), &internalv1.ReleasePlan{PlanId: "plan/x"}),
			fsm.PermissionDenied, fsm.ReasonOutOfScope)
		wantAnswer(t, "release of another pool",
			from(p, operator("b"), &internalv1.ReleasePlan{PlanId: "plan/x", Pools: []string{"a"}}),
			fsm.PermissionDenied, fsm.ReasonOutOfScope)
		wantAnswer(t, "limit by a pool",
			from(p, operator("a"), &internalv1.ReleasePlan{PlanId: "plan/x", Pools: []string{"a"}, MaxActive: proto.Int32(1)}),
			fsm.PermissionDenied, fsm.ReasonOutOfScope)
		wantAnswer(t, "release by the pool",
			from(p, operator("a"), &internalv1.ReleasePlan{PlanId: "plan/x", Pools: []string{"a"}}), 0, "")
		begin(t, p, "run-a-5")
	}
}

// If a plan fails in several pools, it is held in all, until an operator of all pools releases it.
func TestBrakeOfFleet(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails map[string]int
		held  bool
	}{
		{"many machines of one pool", map[string]int{"a": 8}, false},
		{"one pool and one machine of another", map[string]int{"a": 8, "b": 1}, false},
		{"two pools", map[string]int{"a": 5, "b": 5}, true},
		{"a few machines of many pools", map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, true},
	} {
		p := tenants(t, "ssh", 8, "a", "b", "c", "d", "e", "other")
		for _, pool := range []string{"a", "b", "c", "d", "e"} {
			for i := range tt.fails[pool] {
				if run := fmt.Sprintf("run-%s-%d", pool, i); getRun(t, p, run).GetWait().GetKind() == holdfastv1.Wait_QUEUE {
					finish(t, p, run, failed)
				}
			}
		}
		got, _ := p.View().Plan("plan/x")
		if got.GetBrake().GetFleet() != tt.held {
			t.Errorf("%s: got %v, want held in all pools: %t", tt.name, got.GetBrake(), tt.held)
		}
		if free := getRun(t, p, "run-other-0").GetWait().GetKind() == holdfastv1.Wait_QUEUE; free == tt.held {
			t.Errorf("%s: a run of another pool may begin: %t", tt.name, free)
		}
		if !tt.held {
			continue
		}
		wantAnswer(t, tt.name, from(p, operator("a"), &internalv1.ReleasePlan{PlanId: "plan/x", Pools: []string{"a"}}),
			fsm.PermissionDenied, fsm.ReasonOutOfScope)
		wantAnswer(t, tt.name, from(p, operator(), &internalv1.ReleasePlan{PlanId: "plan/x"}), 0, "")
		begin(t, p, "run-other-0")
	}
}

// A machine's id that is registered again in another pool is another machine: a run of the former
// owner is not found, and its request id is not answered with it.
func TestReusedMachineID(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-1", "b")})
	start(t, p, "m-1", "r-1", "REBOOT", "")
	do(t, p, &internalv1.CancelRun{RunId: "run-r-1"})
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-1", "a")})
	wantAnswer(t, "cancel", from(p, operator("a"), &internalv1.CancelRun{RunId: "run-r-1"}), fsm.NotFound, "RUN_NOT_FOUND")
	wantAnswer(t, "start", from(p, operator("a"), startOp("m-1", "r-1", "REBOOT", "")), fsm.AlreadyExists,
		fsm.ReasonRequestConflict)
	wantAnswer(t, "start by all pools", from(p, operator(), startOp("m-1", "r-1", "REBOOT", "")), 0, "")
	for e := range p.View().History("m-1", 0) {
		if want := map[bool]string{true: "b", false: "a"}[e.GetSequence() <= 4]; e.GetPool() == "" {
			t.Errorf("entry %v: got no pool, want one such as %s", e, want)
		}
	}
}
