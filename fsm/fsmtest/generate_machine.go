package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// machineGenerator makes the commands about machines, the notes of their devices, and plans.
type machineGenerator struct{ draw }

func (g machineGenerator) machine() *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: g.id("m", machineIDs), Spec: &holdfastv1.MachineSpec{Rack: g.id("rack", 3)},
		Labels: map[string]string{"env": g.id("env", 2)}}
	if g.Choose("with hardware", 3) == 0 {
		m.Spec.MacAddresses = []string{fmt.Sprintf("02:00:00:00:00:0%d", g.Choose("mac", macs))}
		m.Spec.Serial = g.id("serial", macs)
		m.Spec.BmcEndpoint = g.id("bmc", macs)
	}
	if g.rarely("with a provider") {
		m.Spec.Provider = g.id("dc", 2)
	}
	g.assign(m)
	g.declare(m.GetSpec())
	return m
}

// declare rarely sets a declared text that is still empty. Endpoints have a form.
func (g machineGenerator) declare(s *holdfastv1.MachineSpec) {
	for f := range machinefield.All() {
		if !f.List() && f.Text(s) == "" && !strings.HasSuffix(f.Name(), "_endpoint") && g.rarely("with "+f.GetLabel()) {
			f.Set(s, g.id(f.Name(), 2))
		}
	}
}

// assign often assigns a pool and secrets to a machine.
func (g machineGenerator) assign(m *holdfastv1.Machine) {
	if n := g.Choose("in pool", poolIDs+1); n < poolIDs {
		m.Spec.Pool = poolID(n)
	}
	if g.Choose("with credentials", 3) == 0 {
		m.Spec.BmcCredentialsRef = g.id("secret", secretIDs)
	}
	if g.rarely("with SSH credentials") {
		m.Spec.SshCredentialsRef = g.id("secret", secretIDs)
	}
}

func (g machineGenerator) registerMachine(*fsm.View) proto.Message {
	c := &internalv1.RegisterMachine{Machine: g.machine(), GeneratedId: g.rarely("generated id")}
	if g.rarely("new from the factory") {
		c.Machine.Status = &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_FACTORY_READY}
	}
	return c
}

func (g machineGenerator) updateMachine(*fsm.View) proto.Message {
	masks := [][]string{
		nil, {"spec.rack"}, {"labels"}, {"labels.env", "spec.serial"}, {"spec"},
		{"spec.pool", "spec.bmc_credentials_ref"}, {"spec.bmc_endpoint"}, {"status"},
	}
	return &internalv1.UpdateMachine{Machine: g.machine(), Paths: oneOf(g.draw, "mask", masks)}
}

func (g machineGenerator) setPhase(*fsm.View) proto.Message {
	// RETIRED is final, so it is rare.
	phases := []holdfastv1.MachineStatus_Phase{2, 2, 2, 4, 4, 4, 5, 5, 5, 6, 6, 7, 7}
	phase := oneOf(g.draw, "phase", phases)
	if g.Choose("any phase", 6) == 0 {
		phase = holdfastv1.MachineStatus_Phase(g.Choose("which", 8))
	}
	return &internalv1.SetMachinePhase{MachineId: g.id("m", machineIDs), Phase: phase, Comment: g.id("comment", 2)}
}

func (g machineGenerator) retryBMC(*fsm.View) proto.Message {
	return &internalv1.RetryBmc{MachineId: g.id("m", machineIDs)}
}

func (g machineGenerator) deleteMachine(*fsm.View) proto.Message {
	return &internalv1.DeleteMachine{MachineId: g.id("m", machineIDs)}
}

func (g machineGenerator) observe(v *fsm.View) proto.Message {
	c := &internalv1.ObserveConditions{}
	for range 1 + g.Choose("machines", 2) {
		mc := &internalv1.MachineConditions{MachineId: g.id("m", machineIDs)}
		for range g.Choose("conditions", 3) {
			kinds := []string{"Reachable", "BMCReachable", "InCustomerCluster", "Degraded", "NeedsIntervention"}
			mc.Conditions = append(mc.Conditions, &holdfastv1.Condition{
				Type:   oneOf(g.draw, "condition", kinds),
				Status: g.Choose("status", 2) == 1,
				Reason: g.id("reason", 2),
				ObservedAt: timestamppb.New(v.Meta().GetNow().AsTime().Add(time.Duration(g.Choose("age",
					4)-1) * time.Second)),
			})
		}
		c.Machines = append(c.Machines, mc)
	}
	return c
}

func (g machineGenerator) createPlan(*fsm.View) proto.Message {
	p := &holdfastv1.Plan{PlanId: g.id("plan", planIDs)}
	for range 1 + g.Choose("steps", 3) {
		s := Step(oneOf(g.draw, "kind", Kinds()))
		if retries := g.Choose("retries", 4); retries < 3 {
			s.MaxRetries = new(int32(retries))
		}
		if !g.rarely("name twice") {
			s.Name += fmt.Sprintf("-%d", len(p.GetSteps()))
		}
		if s.GetConsole() != nil && !g.rarely("a console among others") {
			p.Steps = []*holdfastv1.Step{s}
			break
		}
		p.Steps = append(p.Steps, s)
	}
	return &internalv1.CreatePlan{Plan: p, Replace: g.Choose("replace", 2) == 1, BuiltIn: g.rarely("built in")}
}

func (g machineGenerator) deletePlan(*fsm.View) proto.Message {
	return &internalv1.DeletePlan{PlanId: g.id("plan", planIDs)}
}

func (g machineGenerator) noteDevice(*fsm.View) proto.Message {
	// Few devices, so that some have several notes.
	c := &internalv1.NoteDevice{
		Key: oneOf(g.draw, "of", []string{"host/m-0", "bmc/m-0"}), First: g.Choose("first", 2) == 1,
	}
	if n := g.Choose("note", 4); n > 0 {
		c.Value = []byte{byte(n)}
	}
	return c
}

func (g machineGenerator) releasePlan(*fsm.View) proto.Message {
	return &internalv1.ReleasePlan{PlanId: g.id("plan", planIDs)}
}
