package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The inventory that a BMC reports is stored separately from the machine's record, because
// the record is written often and parts change once a year. It claims no unique keys, and
// does not overwrite values set by an operator or an agent.

// Limits of the inventory of one machine, about 40 KiB at most.
const (
	maxParts    = 200
	maxPartText = 64 // bytes
	maxMissing  = 8
	maxDiff     = 20 // changes in one history entry
)

// HardwareFromBMC is the source of an inventory that a step has read.
const HardwareFromBMC = "bmc"

// StoreHardware stores the inventory that a run has read from its machine. All changes are one
// history entry.
func StoreHardware(t *core.Tx, run *holdfastv1.Run, in *holdfastv1.HardwareInventory) {
	m, ok := t.Machines.Get(run.GetMachineId())
	if !ok || in == nil {
		return
	}
	is := BoundHardware(in)
	is.Source, is.ObservedAt, is.RunId = HardwareFromBMC, t.Now, run.GetRunId()
	if was, ok := t.Hardware.Get(m.GetMachineId()); ok {
		keepUnread(was.GetHardware(), is)
		if diff := hardwareDiff(was.GetHardware(), is); len(diff) > 0 {
			events.AddHistory(t, m, &holdfastv1.HistoryEntry{
				Facet:       "inventory",
				To:          "hardware: " + strings.Join(diff, ", "),
				TriggeredBy: RunTrigger(t),
				RunId:       run.GetRunId(),
				Comment:     "as the BMC tells",
			})
		}
	}
	t.Hardware.Put(&internalv1.MachineHardware{MachineId: m.GetMachineId(), Hardware: is})
	var macs []string
	for _, p := range partsOf(is, "nic") {
		macs = append(macs, p.GetMac())
	}
	if m, ok = Edit(t, m.GetMachineId()); ok {
		was := lifecycle.Condition(m, lifecycle.IdentityConflict)
		if notePorts(t, m, macs...); lifecycle.Condition(m, lifecycle.IdentityConflict) != was {
			PutMachine(t, m)
		}
	}
}

// keepUnread adds the last known parts of the kinds that were not read completely, and the last
// known names. A part that was read replaces the known one of its slot. Sources name slots
// differently, so parts of another source stay only while none of their kind is read.
func keepUnread(was, is *holdfastv1.HardwareInventory) {
	for _, kind := range is.GetUnread() {
		slots, names := map[string]bool{"": false}, map[string]bool{}
		read := partsOf(is, kind)
		for _, p := range read {
			slots[p.GetSlot()], names[partName(p)] = p.GetSlot() != "", true
		}
		if len(read) > 0 && was.GetSource() != is.GetSource() {
			continue
		}
		for _, p := range partsOf(was, kind) {
			if slots[p.GetSlot()] || names[partName(p)] {
				continue
			}
			if len(is.GetParts()) == maxParts {
				is.LeftOut++
				continue
			}
			kept := proto.CloneOf(p)
			if !strings.HasPrefix(kept.GetState(), stateUnread) {
				kept.State = stateUnread + kept.GetState()
			}
			is.Parts = append(is.Parts, kept)
		}
		if kind == "memory" {
			var modules int64
			for _, p := range partsOf(is, kind) {
				modules += p.GetBytes()
			}
			is.MemoryBytes = positive(cmp.Or(modules, is.GetMemoryBytes(), was.GetMemoryBytes()))
		}
	}
	is.Manufacturer = cmp.Or(is.GetManufacturer(), was.GetManufacturer())
	is.Model = cmp.Or(is.GetModel(), was.GetModel())
	is.Serial = cmp.Or(is.GetSerial(), was.GetSerial())
	is.Uuid = cmp.Or(is.GetUuid(), was.GetUuid())
	is.BiosVersion = cmp.Or(is.GetBiosVersion(), was.GetBiosVersion())
	is.BmcVersion = cmp.Or(is.GetBmcVersion(), was.GetBmcVersion())
	is.BoardSerial = cmp.Or(is.GetBoardSerial(), was.GetBoardSerial())
}

// stateUnread begins the state of a part that was not read this time, before its last known state.
const stateUnread = "unread, was "

// partKinds returns the kinds of parts, in their order.
func partKinds() []string { return []string{"cpu", "memory", "disk", "nic", "gpu", "pcie"} }

// BoundHardware returns a truncated copy, because the data of a BMC can have any size. Both
// the proposer and Apply truncate it, so it always fits in a log entry.
func BoundHardware(in *holdfastv1.HardwareInventory) *holdfastv1.HardwareInventory {
	h := proto.CloneOf(in)
	text := func(fields ...*string) {
		for _, f := range fields {
			*f = lex.Clip(strings.ToValidUTF8(*f, "\uFFFD"), maxPartText)
		}
	}
	text(&h.Manufacturer, &h.Model, &h.Serial, &h.Uuid, &h.BiosVersion, &h.BmcVersion, &h.BoardSerial)
	if over := len(h.GetParts()) - maxParts; over > 0 {
		h.Parts, h.LeftOut = h.GetParts()[:maxParts], h.GetLeftOut()+int32(over)
	}
	for _, p := range h.GetParts() {
		text(&p.Kind, &p.Slot, &p.Model, &p.Serial, &p.Firmware, &p.Mac, &p.State)
	}
	h.Unread = slices.DeleteFunc(partKinds(), func(kind string) bool { return !slices.Contains(in.GetUnread(), kind) })
	h.Missing = h.GetMissing()[:min(len(h.GetMissing()), maxMissing)]
	for i := range h.GetMissing() {
		h.Missing[i] = lex.Clip(strings.ToValidUTF8(h.Missing[i], "\uFFFD"), 4*maxPartText)
	}
	return h
}

// hardwareDiff describes the changes of an inventory. Parts that could not be read this time are
// in both (keepUnread).
func hardwareDiff(was, is *holdfastv1.HardwareInventory) []string {
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
	for _, kind := range partKinds() {
		before, now := partsOf(was, kind), partsOf(is, kind)
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

// without returns the parts that are not among others. It compares the slot and the part, and
// not its state.
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

// partName returns a name that distinguishes a part from others of its kind.
func partName(p *holdfastv1.HardwarePart) string {
	return strings.Join(strings.Fields(p.GetSlot()+" "+cmp.Or(p.GetSerial(), p.GetMac(), p.GetModel())), " ")
}

// Hardware returns the inventory of a machine, or nil if none was read.
func (v *View) Hardware(machineID string) *holdfastv1.HardwareInventory {
	h, ok := v.s.Hardware.Get(machineID)
	if !ok {
		return nil
	}
	return h.GetHardware()
}
