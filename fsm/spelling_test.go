package fsm_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestSpelling checks that no two machines or pools differ only in the case of letters, whichever
// call creates the second one, and that the first one may be written again.
func TestSpelling(t *testing.T) {
	machine := func(id string) proto.Message {
		return &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id}}
	}
	awaited := func(id string) proto.Message {
		return &internalv1.CreateAgentMachine{MachineId: id, Pool: "gpu", PendingTtlMs: 1000}
	}
	agent := func(id string) proto.Message { return agentOp(id, "gpu") }
	node := func(id string) proto.Message {
		return &internalv1.CreateNode{MachineId: id, MacAddress: "02:00:00:00:00:01"}
	}
	pool := func(id string) proto.Message {
		return &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: id}}
	}
	manager := func(id string) proto.Message {
		return &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: id}, TtlMs: 1000}
	}
	for _, pair := range [][2]string{{"1165a9b6", "1165A9B6"}, {"Node-1", "node-1"}, {"Node-1", "NODE-1"}} {
		for name, ops := range map[string][2]func(string) proto.Message{
			"machine, machine": {machine, machine}, "machine, awaited": {machine, awaited}, "machine, agent": {machine, agent},
			"agent, machine": {agent, machine}, "agent, agent": {agent, agent}, "agent, node": {agent, node},
		} {
			t.Run(name+" "+pair[0]+" "+pair[1], func(t *testing.T) {
				p := gpuPool(t)
				do(t, p, ops[0](pair[0]))
				refused(t, p, ops[1](pair[1]), fsm.AlreadyExists, "MACHINE_CONFLICT")
				do(t, p, ops[0](pair[0]))
				do(t, p, &internalv1.DeleteMachine{MachineId: pair[0]})
				do(t, p, ops[1](pair[1]))
			})
		}
		for name, ops := range map[string][2]func(string) proto.Message{
			"pool, manager": {pool, manager}, "manager, pool": {manager, pool},
		} {
			t.Run(name+" "+pair[0]+" "+pair[1], func(t *testing.T) {
				p := fsmtest.NewPeer()
				do(t, p, ops[0](pair[0]))
				refused(t, p, ops[1](pair[1]), fsm.AlreadyExists, "POOL_CONFLICT")
				do(t, p, ops[0](pair[0]))
			})
		}
	}
}

// TestIDsOfPaths checks that no id of a plan or a secret has a part that is not one of a URL's
// path.
func TestIDsOfPaths(t *testing.T) {
	plan := func(id string) proto.Message {
		return &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: id, Steps: []*holdfastv1.Step{fsmtest.Step("ssh")}}}
	}
	for id, good := range map[string]bool{"a": true, "a/b": true, "plan/a.b-c_d:e": true, "..": false, "a/..": false,
		"../a": false, "a/./b": false, "a//b": false, "/a": false, "a/": false, "a/-": false, "-": false, "": false,
		"a b": false, "a\n": false} {
		p := fsmtest.NewPeer()
		if err := p.Do(plan(id)).Err; (err == nil) != good {
			t.Errorf("plan %q: got %v, want it to be accepted: %v", id, err, good)
		}
		if got := access.ValidSecretName(id); got != good {
			t.Errorf("secret %q: got %v, want %v", id, got, good)
		}
	}
}
