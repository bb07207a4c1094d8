package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
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
	make   func(*fsm.View) proto.Message
}

// choices returns all kinds of commands. Keep their order and weights: otherwise a seed makes other
// commands than before.
func choices(d draw) []choice {
	machines, fleet, images, operators := machineGenerator{d}, fleetGenerator{d}, imageGenerator{d}, operatorGenerator{d}
	runs := runGenerator{draw: d, machines: machines, fleet: fleet}
	return slices.Concat([]choice{
		{34, "advance a run", runs.advance},
		{18, "start run", runs.startRun},
		{8, "append logs", runs.appendLogs},
		{7, "register machine", machines.registerMachine},
		{6, "set phase", machines.setPhase},
		{4, "update machine", machines.updateMachine},
		{4, "observe conditions", machines.observe},
		{4, "create plan", machines.createPlan},
		{4, "cancel run", runs.cancelRun},
		{3, "compact log", runs.compactLog},
		{2, "archive a run", runs.archiveRun},
		{1, "drop an archived run", runs.dropArchivedRun},
		{3, "new leader", operators.lead},
		{2, "delete machine", machines.deleteMachine},
		{1, "retry BMC", machines.retryBMC},
		{2, "note a device", machines.noteDevice},
		{1, "delete plan", machines.deletePlan},
		{1, "release plan", machines.releasePlan},
		{2, "something of the cluster", operators.cluster},
	},
		accessGenerator{d}.choices(), images.choices(), fleet.choices(),
		installGenerator{draw: d, images: images, runs: runs}.choices(),
		operators.choices(), webhookGenerator{d}.choices(), waveGenerator{d}.choices(),
		sessionGenerator{d}.choices())
}

// Next returns a command that fits a state, or almost does.
func (g *Generator) Next(v *fsm.View) *internalv1.Command {
	d := draw{g.Chooser}
	all, total := choices(d), 0
	for _, c := range all {
		total += c.weight
	}
	n := d.Choose("command", total)
	i := 0
	for ; n >= all[i].weight; i++ {
		n -= all[i].weight
	}
	c := Command(all[i].make(v))
	c.FeatureLevel, c.Epoch = fsm.FeatureLevel, v.Meta().GetEpoch()
	c.Principal = fmt.Sprintf("user-%d", d.Choose("principal", 2))
	c.Origin = accessGenerator{d}.origin(v, c)
	if d.rarely("epoch of another leader") {
		c.Epoch += uint64(d.Choose("epoch", 3)) - 1
	}
	// The clocks of proposers differ by some seconds.
	skew := time.Duration(d.Choose("clock", 10)-2) * time.Second
	c.Time = timestamppb.New(v.Meta().GetNow().AsTime().Add(skew))
	return c
}

// draw makes the choices. There is one generator of commands for each subject, and all share the
// Chooser of a Generator.
type draw struct{ Chooser }

// rarely returns true one time in twelve.
func (d draw) rarely(what string) bool { return d.Choose(what, 12) == 11 }

func (d draw) id(kind string, n int) string { return fmt.Sprintf("%s-%d", kind, d.Choose(kind, n)) }

// oneOf returns one of some values, or the zero value if there are none.
func oneOf[T any](d draw, what string, all []T) T {
	if len(all) == 0 {
		var none T
		return none
	}
	return all[d.Choose(what, len(all))]
}
