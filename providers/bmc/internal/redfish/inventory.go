package redfish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// survey reads the inventory of a machine once. An error that would probably be another one in a
// moment, or no answer, ends it: the caller tries again. All other gaps are listed as missing.
type survey struct {
	ctx  context.Context
	h    *Host
	v    *providers.Inventory
	err  error       // ends the survey
	body *collection // chassis of the machine
	gaps []gap
}

// gap counts what is missing of some parts. Only the first lines are kept.
type gap struct {
	what string
	n    int
}

// maxGaps bounds the lines on what is missing of one kind of parts.
const maxGaps = 2

// Inventory reads the parts of the machine. What cannot be read is listed in Missing, and its kind
// in Unread.
func (h *Host) Inventory(ctx context.Context) (*providers.Inventory, error) {
	s, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	k := &survey{ctx: ctx, h: h, v: &providers.Inventory{BIOS: s.BiosVersion}}
	boards, alone := k.baseboards(s)
	k.chassis(s, boards, alone)
	k.names(s, alone)
	k.firmware()
	k.processors(s.Processors.ID, false)
	k.memory(s.Memory.ID)
	k.disks(s.Storage.ID)
	for _, b := range boards {
		k.processors(b.Link("Processors"), true)
	}
	k.ports(s)
	k.cards(s)
	if k.err != nil {
		return nil, k.err
	}
	for _, g := range k.gaps {
		if over := g.n - maxGaps; over > 0 {
			k.v.Missing = append(k.v.Missing, fmt.Sprintf("%s: %d more gaps", g.what, over))
		}
	}
	sortParts(k.v)
	return k.v, nil
}

// miss lists a part that cannot be read. kind has those of providers.Inventory.Unread, or none.
func (k *survey) miss(kind, what, why string) {
	line := what + ": " + text.Clip(why, access.MaxText)
	i := slices.IndexFunc(k.gaps, func(g gap) bool { return g.what == what })
	if i < 0 {
		i, k.gaps = len(k.gaps), append(k.gaps, gap{what: what})
	}
	if !slices.Contains(k.v.Missing, line) {
		if k.gaps[i].n++; k.gaps[i].n <= maxGaps {
			k.v.Missing = append(k.v.Missing, line)
		}
	}
	for one := range strings.FieldsSeq(kind) {
		if !slices.Contains(k.v.Unread, one) {
			k.v.Unread = append(k.v.Unread, one)
		}
	}
}

// ok reports whether err is nil. It lists any other as missing, or ends the survey.
func (k *survey) ok(kind, what string, err error) bool {
	switch {
	case err == nil || k.err != nil:
		return k.err == nil
	case partial(err) && !busy(err):
		k.miss(kind, what, err.Error())
	default:
		k.err = fmt.Errorf("%s: %w", what, err)
	}
	return false
}

// members reads the members of a collection that are not absent. It reports whether there is one.
func (k *survey) members(kind, what, at string) []*resource {
	if k.err != nil || at == "" {
		return nil
	}
	all, err := k.h.c.members(k.ctx, at, maxMembers)
	return k.present(kind, what, all, err)
}

// present returns the members of a collection that are not absent, and lists its gaps.
func (k *survey) present(kind, what string, all *collection, err error) []*resource {
	if !k.ok(kind, what, err) {
		return nil
	}
	for _, u := range all.unread {
		if !k.ok(kind, what, u.err) && k.err != nil {
			return nil
		}
	}
	if all.more > 0 {
		k.miss(kind, what, fmt.Sprintf("%d more are not read", all.more))
	}
	return slices.DeleteFunc(all.members, func(r *resource) bool { return stateOf(r.Object).absent() })
}

// odd lists the properties of a part that could not be read. The part itself is known.
func (k *survey) odd(what string, r *resource) {
	if odd := r.Odd(); len(odd) > 0 {
		k.miss("", what, fmt.Sprintf("%s of %s cannot be read", strings.Join(odd, ", "), r.id()))
	}
}

// baseboards returns the systems that are boards of the machine, such as NVIDIA's HGX boards with
// the GPUs: other systems of the service without network, storage and a BIOS. alone reports whether
// the service has no other machine. Only then it is known to which machine they belong.
func (k *survey) baseboards(s *computerSystem) (boards []*resource, alone bool) {
	root, err := k.h.c.service(k.ctx)
	if !k.ok("gpu", "systems", err) {
		return nil, false
	}
	all, err := k.h.c.collection(k.ctx, root.Systems.ID, maxMembers)
	if !k.ok("gpu", "systems", err) {
		return nil, false
	}
	all.members = slices.DeleteFunc(all.members, func(r *resource) bool { return sameAs(r.path, s.ODataID) })
	alone = true
	for _, r := range k.filled("gpu", "systems", all) {
		kind := r.Text("SystemType")
		switch {
		case kind != "" && kind != "Physical": // a DPU or a virtual machine, for example
		case r.Link("EthernetInterfaces") == "" && r.Link("Storage") == "" && r.Link("Bios") == "":
			boards = append(boards, r)
		default:
			alone = false
		}
	}
	if alone && len(all.unread) == 0 {
		return boards, true
	}
	if len(boards) > 0 {
		k.miss("gpu", "GPUs", "the BMC has several machines, and does not show to which one "+boards[0].id()+" belongs")
	}
	return nil, false
}

// filled reads the members of a collection that are only links.
func (k *survey) filled(kind, what string, all *collection) []*resource {
	if k.err != nil {
		return nil
	}
	err := k.h.c.fill(k.ctx, all)
	return k.present(kind, what, all, err)
}

// hang has the kinds of parts that some services show at the chassis only.
const hang = "nic gpu pcie"

// maxChassis bounds the chassis that are read. GPU servers have one for each board.
const maxChassis = 96

// chassis reads the chassis of the machine: those that the system or its boards name, those that
// name them, and if the service has no other machine also those that name none.
func (k *survey) chassis(s *computerSystem, boards []*resource, alone bool) {
	k.body = new(collection)
	own := []string{s.ODataID}
	paths := slices.Clone(s.Links.Chassis)
	for _, b := range boards {
		own = append(own, b.path)
		paths = append(paths, b.In("Links").Links("Chassis")...)
	}
	all := new(collection)
	for _, at := range paths {
		all.members = append(all.members, &resource{path: at})
	}
	if root, err := k.h.c.service(k.ctx); err == nil && root.Chassis.ID != "" && k.err == nil {
		more, err := k.h.c.collection(k.ctx, root.Chassis.ID, maxChassis)
		if k.ok(hang, "chassis", err) {
			all.members, all.more = append(all.members, more.members...), more.more
		}
	}
	seen := map[string]bool{}
	all.members = slices.DeleteFunc(all.members, func(r *resource) bool {
		key := strings.TrimRight(r.path, "/")
		was := seen[key]
		seen[key] = true
		return was
	})
	for _, r := range k.filled(hang, "chassis", all) {
		named := slices.ContainsFunc(paths, func(at string) bool { return sameAs(at, r.path) })
		systems := r.In("Links").Links("ComputerSystems")
		names := slices.ContainsFunc(systems, func(at string) bool {
			return slices.ContainsFunc(own, func(our string) bool { return sameAs(at, our) })
		})
		if named || names || alone && len(systems) == 0 {
			k.body.members = append(k.body.members, r)
		}
	}
}

// names reads the names of the machine: from the system, or else from the chassis that it names. A
// chassis with several machines has a serial number of its own.
func (k *survey) names(s *computerSystem, alone bool) {
	k.v.Manufacturer, k.v.Model, k.v.Serial, k.v.UUID = s.Manufacturer, s.Model, s.SerialNumber, s.UUID
	if s.dell() {
		k.v.Serial, k.v.BoardSerial = s.SKU, s.SerialNumber
	}
	for _, r := range k.body.members {
		if !slices.ContainsFunc(s.Links.Chassis, func(at string) bool { return sameAs(at, r.path) }) {
			continue
		}
		k.v.Manufacturer = cmp.Or(k.v.Manufacturer, known.Text(r.Text("Manufacturer")))
		k.v.Model = cmp.Or(k.v.Model, known.Text(r.Text("Model")))
		if alone {
			k.v.Serial = cmp.Or(k.v.Serial, known.Text(r.Text("SerialNumber")))
		}
	}
	var not []string
	for _, name := range []struct{ what, is string }{
		{"manufacturer", k.v.Manufacturer}, {"model", k.v.Model}, {"serial number", k.v.Serial},
	} {
		if name.is == "" {
			not = append(not, name.what)
		}
	}
	if len(not) > 0 {
		k.miss("", strings.Join(not, ", "), "not shown by the BMC")
	}
	k.odd("the system", s.resource)
}

// firmware reads the version of the BMC's firmware.
func (k *survey) firmware() {
	const what = "firmware of the BMC"
	if k.err != nil {
		return
	}
	at, err := k.h.manager(k.ctx)
	if err != nil && !access.Silent(err) && !busy(err) && k.ctx.Err() == nil {
		k.miss("", what, err.Error())
		return
	}
	if !k.ok("", what, err) {
		return
	}
	m, err := k.h.c.read(k.ctx, at)
	if !k.ok("", what, err) {
		return
	}
	if k.v.BMC = m.Text("FirmwareVersion"); k.v.BMC == "" {
		k.miss("", what, "not shown by the BMC")
	}
}

// processors reads CPUs and GPUs. Of a baseboard only the accelerators count: the host shows its
// CPUs itself.
func (k *survey) processors(at string, board bool) {
	what, kind := "processors", "cpu gpu"
	if board {
		what, kind = "GPUs", "gpu"
	}
	if at == "" {
		k.miss(kind, what, "not shown by the BMC")
	}
	for _, p := range k.members(kind, what, at) {
		slot := cmp.Or(p.Text("Socket"), p.id())
		switch p.Word("ProcessorType", "GPU", "Accelerator", "CPU") {
		case "GPU", "Accelerator":
			g := card(p, slot)
			g.Bytes, _ = mebibytes(p.In("MemorySummary"), "TotalMemorySizeMiB")
			k.v.GPUs = append(k.v.GPUs, g)
		case "", "CPU":
			if board {
				continue
			}
			cores, _ := p.Count("TotalCores")
			threads, _ := p.Count("TotalThreads")
			k.v.CPUs = append(k.v.CPUs, providers.CPU{
				Slot:    slot,
				Model:   p.Text("Model"),
				Cores:   int(cores),
				Threads: int(threads),
				Serial:  known.Text(p.Text("SerialNumber")),
				State:   stateOf(p.Object).part(),
			})
		}
		k.odd(what, p)
	}
	if !board && at != "" && len(k.v.CPUs) == 0 {
		k.none("cpu", what)
	}
}

// none lists parts that every machine has. Some BMCs list none until the machine was switched on.
func (k *survey) none(kind, what string) {
	if k.err == nil && !slices.Contains(k.v.Unread, kind) {
		k.miss(kind, what, "the BMC lists none")
	}
}

// mebibytes returns a size in bytes. More than 16 TiB in one part is not a size in mebibytes.
func mebibytes(o loose.Object, name string) (bytes int64, ok bool) {
	const most = 16 << 20
	mib, ok := o.Count(name)
	if mib > most {
		o.Doubt(name)
		return 0, false
	}
	return mib << 20, ok
}

// memory reads the DIMMs. An empty slot has no capacity; a module with a serial number and none has
// a size that is not known.
func (k *survey) memory(at string) {
	if at == "" {
		k.miss("memory", "memory", "not shown by the BMC")
	}
	for _, m := range k.members("memory", "memory", at) {
		bytes, ok := mebibytes(m.Object, "CapacityMiB")
		serial := known.Text(m.Text("SerialNumber"))
		if bytes == 0 && (ok || !m.Has("CapacityMiB") && serial == "") {
			continue
		}
		d := providers.DIMM{
			Slot:   cmp.Or(m.Text("DeviceLocator"), m.id()),
			Bytes:  bytes,
			Type:   m.Text("MemoryDeviceType"),
			Serial: serial,
			State:  stateOf(m.Object).part(),
		}
		k.v.Memory = append(k.v.Memory, d)
		k.v.MemoryBytes += d.Bytes
		k.odd("memory", m)
	}
	if at != "" && len(k.v.Memory) == 0 {
		k.none("memory", "memory")
	}
}

// disks reads the drives of all storage controllers, each once.
func (k *survey) disks(at string) {
	if at == "" {
		k.miss("disk", "disks", "not shown by the BMC")
	}
	var drives []string
	for _, c := range k.members("disk", "disks", at) {
		for _, d := range c.Links("Drives") {
			if !slices.ContainsFunc(drives, func(o string) bool { return sameAs(o, d) }) {
				drives = append(drives, d)
			}
		}
		k.odd("disks", c)
	}
	if k.err != nil {
		return
	}
	all, err := k.h.c.linked(k.ctx, drives, maxMembers)
	for _, d := range k.present("disk", "disks", all, err) {
		size, _ := d.Count("CapacityBytes")
		state := stateOf(d.Object).part()
		if failing, _ := d.Flag("FailurePredicted"); failing {
			state = providers.PartFailed
		}
		k.v.Disks = append(k.v.Disks, providers.Disk{
			Slot:     d.id(),
			Model:    d.Text("Model"),
			Serial:   known.Text(d.Text("SerialNumber")),
			Bytes:    size,
			Media:    d.Text("MediaType"),
			Firmware: cmp.Or(d.Text("FirmwareVersion"), d.Text("Revision")),
			State:    state,
		})
		k.odd("disks", d)
	}
}

// card returns an accelerator or a PCIe device.
func card(r *resource, slot string) providers.Card {
	model := cmp.Or(known.Text(r.Text("Model")), r.Text("Name"))
	if maker := known.Text(r.Text("Manufacturer")); !strings.HasPrefix(model, maker) {
		model = maker + " " + model
	}
	return providers.Card{
		Slot:     slot,
		Model:    model,
		Serial:   known.Text(r.Text("SerialNumber")),
		Firmware: firmwareOf(r.Object),
		State:    stateOf(r.Object).part(),
	}
}

// firmwareOf returns a version, which HPE has in an object.
func firmwareOf(o loose.Object) string {
	if version := o.At("/FirmwareVersion/Current"); !version.Empty() {
		return known.Text(version.Text("VersionString"))
	}
	return o.Text("FirmwareVersion")
}

// sortParts sorts all parts, because members are read in parallel.
func sortParts(v *providers.Inventory) {
	slices.SortStableFunc(v.CPUs, func(a, b providers.CPU) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortStableFunc(v.Memory, func(a, b providers.DIMM) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortStableFunc(v.Disks, func(a, b providers.Disk) int { return strings.Compare(a.Slot, b.Slot) })
	for _, cards := range [][]providers.Card{v.GPUs, v.PCIe} {
		slices.SortStableFunc(cards, func(a, b providers.Card) int { return strings.Compare(a.Slot, b.Slot) })
	}
	slices.SortStableFunc(v.NICs, func(a, b providers.NIC) int { return strings.Compare(a.Name, b.Name) })
}
