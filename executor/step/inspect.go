package step

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// inspect reads the state of the machine into the evidence.
func (a *Attempt) inspect(inspector providers.Inspector) Action {
	return Action{Do: func(ctx context.Context) error {
		facts, err := inspector.Inspect(ctx, a.Machine)
		if err != nil {
			return err
		}
		seen := map[string]string{
			"reachable":        strconv.FormatBool(facts.Reachable),
			"reachable_reason": facts.ReachableReason,
			"bmc_reachable":    strconv.FormatBool(facts.BMCReachable),
			"bmc_reason":       facts.BMCReason,
			evidenceBootID:     facts.BootID,
			"image":            facts.Image,
		}
		a.Message = "inspected"
		if power, ok := a.Provider.(providers.PowerController); ok {
			state := facts.Power
			if state == providers.PowerUnknown {
				if state, err = power.PowerState(ctx, a.Machine); err != nil {
					return err
				}
			}
			seen[evidencePower] = string(state)
			a.Message = "power is " + string(state)
		}
		maps.DeleteFunc(seen, func(_, v string) bool { return v == "" })
		a.AddEvidence(seen)
		return nil
	}}
}

// readInventory reads the inventory of the machine, which is stored with the outcome. If
// it contradicts the machine's spec, the message and the run log have the difference, but
// nothing is changed.
func (a *Attempt) readInventory(p providers.InventoryReader) Action {
	return Action{Do: func(ctx context.Context) error {
		v, err := p.Inventory(ctx, a.Machine)
		if err != nil {
			return err
		}
		v.DropPlaceholders()
		a.Inventory = hardwareOf(v)
		a.AddEvidence(map[string]string{
			"serial": task.Clean(v.Serial),
			"model":  task.Clean(strings.TrimSpace(v.Manufacturer + " " + v.Model)),
		})
		var read []string
		for _, kind := range []struct{ kind, key, value, said string }{
			{"cpu", "cpus", strconv.Itoa(len(v.CPUs)), fmt.Sprintf("%d CPUs", len(v.CPUs))},
			{"memory", "memory_bytes", strconv.FormatInt(v.MemoryBytes, 10), memoryText(v)},
			{"disk", "disks", strconv.Itoa(len(v.Disks)), fmt.Sprintf("%d disks", len(v.Disks))},
			{"nic", "nics", strconv.Itoa(len(v.NICs)), fmt.Sprintf("%d network ports", len(v.NICs))},
		} {
			// No part of a kind that could not be read is not known to be none, and no machine is
			// without memory.
			if kind.value == "0" && (kind.kind == "memory" || slices.Contains(v.Unread, kind.kind)) {
				continue
			}
			a.AddEvidence(map[string]string{kind.key: kind.value})
			read = append(read, kind.said)
		}
		if len(v.GPUs) > 0 {
			a.AddEvidence(map[string]string{"gpus": strconv.Itoa(len(v.GPUs))})
		}
		a.Message = "read " + cmp.Or(strings.Join(read, ", "), "no parts")
		if len(v.Missing) > 0 {
			a.AddEvidence(map[string]string{"missing": task.Clean(strings.Join(v.Missing, "; "))})
			a.Message += ", some parts could not be read"
		}
		for _, c := range contradictions(a.Machine, v) {
			a.Say("%s", c)
			a.Message += "; " + c
		}
		return nil
	}}
}

// memoryText returns the memory of a machine in words.
func memoryText(v *providers.Inventory) string {
	unknown := func(d providers.DIMM) bool { return d.Bytes <= 0 }
	partial := slices.Contains(v.Unread, "memory") || slices.ContainsFunc(v.Memory, unknown)
	return describe.AtLeast(partial, fmt.Sprintf("%d GiB of memory", v.MemoryBytes>>30))
}

// positive returns a quantity of which 0 means unknown. One that T cannot hold is not known either.
func positive[T, N int | int32 | int64](n N) *T {
	v := T(n)
	if n <= 0 || N(v) != n {
		return nil
	}
	return &v
}

// contradictions returns the differences between an inventory and the machine's spec.
func contradictions(m *holdfastv1.Machine, v *providers.Inventory) []string {
	var all []string
	want := m.GetSpec().GetSerial()
	if want != "" && v.Serial != "" && plain(want) != plain(v.Serial) && plain(want) != plain(v.BoardSerial) {
		all = append(all, fmt.Sprintf("the BMC reports serial number %s, declared is %s", task.Clean(v.Serial), want))
	}
	if len(v.NICs) == 0 || slices.Contains(v.Unread, "nic") {
		return all
	}
	for _, mac := range m.GetSpec().GetMacAddresses() {
		if !slices.ContainsFunc(v.NICs, func(n providers.NIC) bool { return macOf(n) == mac }) {
			all = append(all, fmt.Sprintf("the BMC reports no network port with the declared MAC address %s", mac))
		}
	}
	return all
}

// plain returns what distinguishes a serial number. Labels, vendors and tools write it with other
// case, blanks and separators.
func plain(serial string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, serial)
}

// macOf returns the address of a port as it is recorded, or "" if the port shows none.
func macOf(n providers.NIC) string {
	mac, _ := fsm.MAC(n.MAC)
	return mac
}

// hardwareOf converts an inventory to its recorded form.
func hardwareOf(v *providers.Inventory) *holdfastv1.HardwareInventory {
	h := &holdfastv1.HardwareInventory{
		Manufacturer: task.Clean(v.Manufacturer),
		Model:        task.Clean(v.Model),
		Serial:       task.Clean(v.Serial),
		BoardSerial:  task.Clean(v.BoardSerial),
		Unread:       v.Unread,
		Uuid:         task.Clean(v.UUID),
		BiosVersion:  task.Clean(v.BIOS),
		BmcVersion:   task.Clean(v.BMC),
		MemoryBytes:  positive[int64](v.MemoryBytes),
	}
	state := func(s providers.PartState) string { return cmp.Or(string(s), "unknown") }
	add := func(p *holdfastv1.HardwarePart) {
		p.Slot, p.Model, p.Serial = task.Clean(p.GetSlot()), task.Clean(p.GetModel()), task.Clean(p.GetSerial())
		p.Firmware, p.Mac = task.Clean(p.GetFirmware()), task.Clean(p.GetMac())
		h.Parts = append(h.Parts, p)
	}
	for _, c := range v.CPUs {
		add(&holdfastv1.HardwarePart{
			Kind:    "cpu",
			Slot:    c.Slot,
			Model:   c.Model,
			Serial:  c.Serial,
			Cores:   positive[int32](c.Cores),
			Threads: positive[int32](c.Threads),
			State:   state(c.State),
		})
	}
	for _, d := range v.Memory {
		add(&holdfastv1.HardwarePart{
			Kind:   "memory",
			Slot:   d.Slot,
			Model:  d.Type,
			Serial: d.Serial,
			Bytes:  positive[int64](d.Bytes),
			State:  state(d.State),
		})
	}
	for _, d := range v.Disks {
		add(&holdfastv1.HardwarePart{
			Kind:     "disk",
			Slot:     d.Slot,
			Model:    strings.TrimSpace(d.Model + " " + d.Media),
			Serial:   d.Serial,
			Firmware: d.Firmware,
			Bytes:    positive[int64](d.Bytes),
			State:    state(d.State),
		})
	}
	for _, cards := range []struct {
		kind string
		of   []providers.Card
	}{{"gpu", v.GPUs}, {"pcie", v.PCIe}} {
		for _, c := range cards.of {
			add(&holdfastv1.HardwarePart{
				Kind:     cards.kind,
				Slot:     c.Slot,
				Model:    c.Model,
				Serial:   c.Serial,
				Firmware: c.Firmware,
				Bytes:    positive[int64](c.Bytes),
				State:    state(c.State),
			})
		}
	}
	for _, n := range v.NICs {
		add(&holdfastv1.HardwarePart{Kind: "nic", Slot: n.Name, Mac: macOf(n), Mbps: positive[int32](n.Mbps),
			State: state(n.Link)})
	}
	for _, m := range v.Missing {
		h.Missing = append(h.Missing, task.Clean(m))
	}
	return fsm.BoundHardware(h)
}
