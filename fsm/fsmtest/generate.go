package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The number of ids. There are few, so that commands collide.
const (
	machineIDs = 4
	planIDs    = 3
	requestIDs = 60
	runIDs     = 300
	macs       = 6
)

// Chooser makes the choices of a Generator.
type Chooser interface {
	// Choose returns a number from 0 to n-1. The label is shown when a test fails.
	Choose(what string, n int) int
}

// Generator makes random commands. It reads the state, so that most of them are valid.
type Generator struct {
	Chooser Chooser
}

// choice is a kind of command and its weight.
type choice struct {
	weight int
	name   string
	make   func(*Generator, *fsm.View) proto.Message
}

func choices() []choice {
	return []choice{
		{34, "advance a run", (*Generator).advance},
		{18, "start run", (*Generator).startRun},
		{8, "append logs", (*Generator).appendLogs},
		{7, "register machine", (*Generator).registerMachine},
		{6, "set phase", (*Generator).setPhase},
		{4, "update machine", (*Generator).updateMachine},
		{4, "observe conditions", (*Generator).observe},
		{4, "create plan", (*Generator).createPlan},
		{4, "cancel run", (*Generator).cancelRun},
		{3, "compact log", (*Generator).compactLog},
		{2, "archive a run", (*Generator).archiveRun},
		{1, "drop an archived run", (*Generator).dropArchivedRun},
		{3, "new leader", (*Generator).lead},
		{2, "delete machine", (*Generator).deleteMachine},
		{1, "retry BMC", (*Generator).retryBMC},
		{2, "note a device", (*Generator).noteDevice},
		{1, "delete plan", (*Generator).deletePlan},
		{1, "release plan", (*Generator).releasePlan},
		{2, "something of the cluster", (*Generator).cluster},
	}
}

// Next returns a command that fits a state, or almost does.
func (g *Generator) Next(v *fsm.View) *internalv1.Command {
	all, total := slices.Concat(choices(), accessChoices(), fleetChoices(), installCommands(),
		operatorChoices(), webhookChoices()), 0
	for _, c := range all {
		total += c.weight
	}
	n := g.Chooser.Choose("command", total)
	i := 0
	for ; n >= all[i].weight; i++ {
		n -= all[i].weight
	}
	c := Command(all[i].make(g, v))
	c.FeatureLevel, c.Epoch = fsm.FeatureLevel, v.Meta().GetEpoch()
	c.Principal = fmt.Sprintf("user-%d", g.Chooser.Choose("principal", 2))
	c.Origin = g.origin(v, c)
	if g.rarely("epoch of another leader") {
		c.Epoch += uint64(g.Chooser.Choose("epoch", 3)) - 1
	}
	// The clocks of proposers differ by some seconds.
	skew := time.Duration(g.Chooser.Choose("clock", 10)-2) * time.Second
	c.Time = timestamppb.New(v.Meta().GetNow().AsTime().Add(skew))
	return c
}

// rarely returns true one time in twelve.
func (g *Generator) rarely(what string) bool { return g.Chooser.Choose(what, 12) == 11 }

func (g *Generator) id(kind string, n int) string {
	return fmt.Sprintf("%s-%d", kind, g.Chooser.Choose(kind, n))
}

// oneOf returns one of some values, or the zero value if there are none.
func oneOf[T any](g *Generator, what string, all []T) T {
	if len(all) == 0 {
		var none T
		return none
	}
	return all[g.Chooser.Choose(what, len(all))]
}

func (g *Generator) machine() *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: g.id("m", machineIDs), Spec: &holdfastv1.MachineSpec{Rack: g.id("rack", 3)},
		Labels: map[string]string{"env": g.id("env", 2)}}
	if g.Chooser.Choose("with hardware", 3) == 0 {
		m.Spec.MacAddresses = []string{fmt.Sprintf("02:00:00:00:00:0%d", g.Chooser.Choose("mac", macs))}
		m.Spec.Serial = g.id("serial", macs)
		m.Spec.BmcEndpoint = g.id("bmc", macs)
	}
	if g.rarely("with a provider") {
		m.Spec.Provider = g.id("dc", 2)
	}
	g.place(m)
	return m
}

func (g *Generator) registerMachine(*fsm.View) proto.Message {
	c := &internalv1.RegisterMachine{Machine: g.machine(), GeneratedId: g.rarely("generated id")}
	if g.rarely("new from the factory") {
		c.Machine.Status = &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_FACTORY_READY}
	}
	return c
}

func (g *Generator) updateMachine(*fsm.View) proto.Message {
	masks := [][]string{
		nil, {"spec.rack"}, {"labels"}, {"labels.env", "spec.serial"}, {"spec"},
		{"spec.pool", "spec.bmc_credentials_ref"}, {"spec.bmc_endpoint"}, {"status"},
	}
	return &internalv1.UpdateMachine{Machine: g.machine(), Paths: oneOf(g, "mask", masks)}
}

func (g *Generator) setPhase(*fsm.View) proto.Message {
	// RETIRED is final, so it is rare.
	phases := []holdfastv1.MachineStatus_Phase{2, 2, 2, 4, 4, 4, 5, 5, 5, 6, 6, 7, 7}
	phase := oneOf(g, "phase", phases)
	if g.Chooser.Choose("any phase", 6) == 0 {
		phase = holdfastv1.MachineStatus_Phase(g.Chooser.Choose("which", 8))
	}
	return &internalv1.SetMachinePhase{MachineId: g.id("m", machineIDs), Phase: phase, Comment: g.id("comment", 2)}
}

func (g *Generator) retryBMC(*fsm.View) proto.Message {
	return &internalv1.RetryBmc{MachineId: g.id("m", machineIDs)}
}

func (g *Generator) deleteMachine(*fsm.View) proto.Message {
	return &internalv1.DeleteMachine{MachineId: g.id("m", machineIDs)}
}

func (g *Generator) observe(v *fsm.View) proto.Message {
	c := &internalv1.ObserveConditions{}
	for range 1 + g.Chooser.Choose("machines", 2) {
		mc := &internalv1.MachineConditions{MachineId: g.id("m", machineIDs)}
		for range g.Chooser.Choose("conditions", 3) {
			kinds := []string{"Reachable", "BMCReachable", "InCustomerCluster", "Degraded", "NeedsIntervention"}
			mc.Conditions = append(mc.Conditions, &holdfastv1.Condition{
				Type:   oneOf(g, "condition", kinds),
				Status: g.Chooser.Choose("status", 2) == 1,
				Reason: g.id("reason", 2),
				ObservedAt: timestamppb.New(v.Meta().GetNow().AsTime().Add(time.Duration(g.Chooser.Choose("age",
					4)-1) * time.Second)),
			})
		}
		c.Machines = append(c.Machines, mc)
	}
	return c
}

func (g *Generator) createPlan(*fsm.View) proto.Message {
	p := &holdfastv1.Plan{PlanId: g.id("plan", planIDs)}
	for range 1 + g.Chooser.Choose("steps", 3) {
		s := Step(oneOf(g, "kind", Kinds()))
		if retries := g.Chooser.Choose("retries", 4); retries < 3 {
			s.MaxRetries = proto.Int32(int32(retries))
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
	return &internalv1.CreatePlan{Plan: p, Replace: g.Chooser.Choose("replace", 2) == 1, BuiltIn: g.rarely("built in")}
}

func (g *Generator) deletePlan(*fsm.View) proto.Message {
	return &internalv1.DeletePlan{PlanId: g.id("plan", planIDs)}
}

func (g *Generator) noteDevice(*fsm.View) proto.Message {
	// Few devices, so that some have several notes.
	c := &internalv1.NoteDevice{
		Key: oneOf(g, "of", []string{"host/m-0", "bmc/m-0"}), First: g.Chooser.Choose("first", 2) == 1,
	}
	if n := g.Chooser.Choose("note", 4); n > 0 {
		c.Value = []byte{byte(n)}
	}
	return c
}

func (g *Generator) releasePlan(*fsm.View) proto.Message {
	return &internalv1.ReleasePlan{PlanId: g.id("plan", planIDs)}
}

func (g *Generator) lead(v *fsm.View) proto.Message {
	term := v.Meta().GetEpoch() + 1 + uint64(g.Chooser.Choose("terms", 2))
	if g.rarely("leader of old") {
		term = uint64(g.Chooser.Choose("term", int(term)))
	}
	return &internalv1.LeaderEstablished{PeerId: g.id("p", 3), Term: term}
}

func (g *Generator) cluster(*fsm.View) proto.Message {
	return oneOf(g, "cluster", []proto.Message{
		&internalv1.PutPeer{
			Peer: &internalv1.PeerRecord{Id: g.id("p", 4), Instance: g.id("i", 3), MaxFeatureLevel: fsm.FeatureLevel},
		},
		&internalv1.RemovePeer{Id: g.id("p", 4)},
		&internalv1.InitCluster{ClusterId: g.id("c", 2)},
		&internalv1.RaiseFeatureLevel{Level: fsm.FeatureLevel},
		&internalv1.Beat{},
	})
}
