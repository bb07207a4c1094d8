package fsm

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// What a BMC says is in a machine is kept beside the machine's record and not in it: a machine is
// written often, its parts change once a year. It claims nothing, and overwrites nothing that an
// operator or an agent has said.

// Bounds of what is kept of one machine, some 40 KiB at most.
const (
	maxParts    = 200
	maxPartText = 64 // bytes
	maxMissing  = 8
	maxDiff     = 20 // changes that one history entry tells
)

// hardwareFromBMC is the source of an inventory that a step has read.
const hardwareFromBMC = "bmc"

func hardwareSchema() *schema[*internalv1.MachineHardware] {
	return &schema[*internalv1.MachineHardware]{
		kind: internalv1.SnapshotRecord_MACHINE_HARDWARE,
		key:  (*internalv1.MachineHardware).GetMachineId,
	}
}

// keepHardware takes over what a run has read of its machine. What is another than before is one
// history entry.
func (t *tx) keepHardware(run *holdfastv1.Run, in *holdfastv1.HardwareInventory) {
	m, ok := t.machines.get(run.GetMachineId())
	if !ok || in == nil {
		return
	}
	is := BoundHardware(in)
	is.Source, is.ObservedAt, is.RunId = hardwareFromBMC, t.now, run.GetRunId()
	if was, ok := t.hardware.get(m.GetMachineId()); ok {
		if diff := hardwareDiff(was.GetHardware(), is, t.partKinds()); len(diff) > 0 {
			t.addHistory(m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "hardware: " + strings.Join(diff, ", "), TriggeredBy: t.runTrigger(),
				RunId: run.GetRunId(), Comment: "as the BMC tells"})
		}
	}
	t.hardware.put(&internalv1.MachineHardware{MachineId: m.GetMachineId(), Hardware: is})
}

// BoundHardware returns a copy that is not too large: what a BMC says of itself may be anything.
// Whoever proposes it bounds it, so that it fits into an entry of the log, and Apply does, whoever
// has.
func BoundHardware(in *holdfastv1.HardwareInventory) *holdfastv1.HardwareInventory {
	h := proto.CloneOf(in)
	text := func(fields ...*string) {
		for _, f := range fields {
			*f = clip(strings.ToValidUTF8(*f, "\uFFFD"), maxPartText)
		}
	}
	text(&h.Manufacturer, &h.Model, &h.Serial, &h.Uuid, &h.BiosVersion, &h.BmcVersion)
	if over := len(h.GetParts()) - maxParts; over > 0 {
		h.Parts, h.LeftOut = h.GetParts()[:maxParts], h.GetLeftOut()+int32(over)
	}
	for _, p := range h.GetParts() {
		text(&p.Kind, &p.Slot, &p.Model, &p.Serial, &p.Firmware, &p.Mac, &p.State)
	}
	h.Missing = h.GetMissing()[:min(len(h.GetMissing()), maxMissing)]
	for i := range h.GetMissing() {
		h.Missing[i] = clip(strings.ToValidUTF8(h.Missing[i], "\uFFFD"), 4*maxPartText)
	}
	return h
}

// partKinds lists the kinds of parts that are compared with the ones before.
func (t *tx) partKinds() []string {
	kinds := []string{"cpu", "memory", "disk", "nic"}
	if t.has(Level2) {
		kinds = append(kinds, "gpu", "pcie")
	}
	return kinds
}

// hardwareDiff words what is another than before. What could not be read this time has not changed.
func hardwareDiff(was, is *holdfastv1.HardwareInventory, kinds []string) []string {
	var diff []string
	field := func(name, was, is string) {
		if was != is && was != "" && is != "" {
			diff = append(diff, fmt.Sprintf("%s %s -> %s", name, was, is))
		}
	}
	field("serial", was.GetSerial(), is.GetSerial())
	field("model", was.GetModel(), is.GetModel())
	field("bios", was.GetBiosVersion(), is.GetBiosVersion())
	field("bmc", was.GetBmcVersion(), is.GetBmcVersion())
	for _, kind := range kinds {
		before, now := partsOf(was, kind), partsOf(is, kind)
		if len(now) == 0 && len(is.GetMissing()) > 0 {
			continue
		}
		gone, come := without(before, now), without(now, before)
		for _, p := range gone {
			diff = append(diff, fmt.Sprintf("%s %s gone", kind, partName(p)))
		}
		for _, p := range come {
			diff = append(diff, fmt.Sprintf("%s %s new", kind, partName(p)))
		}
	}
	if len(diff) > maxDiff {
		diff = append(diff[:maxDiff:maxDiff], fmt.Sprintf("and %d more", len(diff)-maxDiff))
	}
	return diff
}

func partsOf(h *holdfastv1.HardwareInventory, kind string) []*holdfastv1.HardwarePart {
	var ps []*holdfastv1.HardwarePart
	for _, p := range h.GetParts() {
		if p.GetKind() == kind {
			ps = append(ps, p)
		}
	}
	return ps
}

// without returns the parts that have no like among others: the same one in the same slot, in
// whatever state.
func without(parts, others []*holdfastv1.HardwarePart) []*holdfastv1.HardwarePart {
	seen := map[string]bool{}
	for _, p := range others {
		seen[partName(p)] = true
	}
	var left []*holdfastv1.HardwarePart
	for _, p := range parts {
		if !seen[partName(p)] {
			left = append(left, p)
		}
	}
	return left
}

// partName returns a part from the others of its kind.
func partName(p *holdfastv1.HardwarePart) string {
	return strings.Join(strings.Fields(p.GetSlot()+" "+firstOf(p.GetSerial(), p.GetMac(), p.GetModel())), " ")
}

// Hardware returns what the BMC of a machine has told of it; nil if nobody has asked.
func (v *View) Hardware(machineID string) *holdfastv1.HardwareInventory {
	h, ok := v.hardware.get(machineID)
	if !ok {
		return nil
	}
	return h.GetHardware()
}
