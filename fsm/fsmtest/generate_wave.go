package fsmtest

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// waveIDs is the number of ids of waves. They do not collide with those of requests.
const waveIDs = 6

// waveGenerator makes the commands about waves.
type waveGenerator struct{ draw }

func (g waveGenerator) choices() []choice {
	return []choice{
		{2, "start a wave", g.startWave},
		{6, "advance a wave", g.advanceWave},
		{1, "cancel a wave", g.cancelWave},
	}
}

func (g waveGenerator) startWave(v *fsm.View) proto.Message {
	c := &internalv1.StartWave{Wave: &holdfastv1.Wave{
		WaveId: g.id("wave", waveIDs), MaxParallel: int32(g.Choose("parallel", 3)),
		MaxFailures: int32(g.Choose("failures", 3)),
	}}
	var plans []string
	for p := range v.Plans("") {
		plans = append(plans, p.GetPlanId())
	}
	c.Wave.PlanId = oneOf(g.draw, "plan", plans)
	for m := range v.Machines("") {
		if g.Choose("member", 3) > 0 {
			c.MachineIds = append(c.MachineIds, m.GetMachineId())
		}
	}
	if g.rarely("machine is unknown") {
		c.MachineIds = append(c.MachineIds, "m-none")
	}
	return c
}

// advanceWave starts the next machine of a wave, or rarely another one.
func (g waveGenerator) advanceWave(v *fsm.View) proto.Message {
	c := &internalv1.AdvanceWave{WaveId: g.id("wave", waveIDs)}
	if active := v.ActiveWaves(); len(active) > 0 && !g.rarely("any wave") {
		c.WaveId = oneOf(g.draw, "active wave", active).GetWaveId()
	}
	machine := v.NextOfWave(c.GetWaveId())
	if g.rarely("any machine") {
		machine = g.id("m", machineIDs)
	}
	c.Start = &internalv1.StartRun{RunId: g.id("run", runIDs), MachineId: machine, DefaultTimeoutSeconds: 60}
	if m, ok := v.Machine(machine); ok {
		c.Start.CheckedProvider = m.GetSpec().GetProvider()
	}
	if g.rarely("refused") {
		c.Refusal, c.RefusalReason = "it has no BMC", "CAPABILITY_MISSING"
	}
	return c
}

func (g waveGenerator) cancelWave(*fsm.View) proto.Message {
	return &internalv1.CancelWave{WaveId: g.id("wave", waveIDs), Reason: "test", KeepRuns: g.rarely("keep runs")}
}
