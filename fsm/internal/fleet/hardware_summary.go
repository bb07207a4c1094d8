package fleet

import (
	"slices"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// HardwareSummary returns the hardware of a machine in short: as its BMC reports it, else as its
// agent does. It returns nil if neither has.
func (v *View) HardwareSummary(m *holdfastv1.Machine) *holdfastv1.HardwareSummary {
	s := &holdfastv1.HardwareSummary{Arch: m.GetNode().GetArch()}
	if h := v.Hardware(m.GetMachineId()); h != nil {
		addParts(s, h)
	}
	a := m.GetAgent()
	if n := int32(a.GetCpuMillicores() / 1000); n > 0 && s.GetCpus() == 0 {
		s.Cores = &n
	}
	if n := a.GetMemoryMib() << 20; n > 0 && s.GetMemoryBytes() == 0 {
		s.MemoryBytes = &n
	}
	if n := a.GetGpuCount(); n > 0 && s.GetGpus() == 0 {
		s.Gpus = &n
	}
	if proto.Size(s) == 0 {
		return nil
	}
	return s
}

// total is a sum of parts, of which some may show no number.
type total struct {
	n      int64
	some   bool // at least one part shows its number
	absent bool // at least one does not
}

func (t *total) add(n int64, known bool) {
	if t.n += n; known {
		t.some = true
	} else {
		t.absent = true
	}
}

// addParts counts the parts of an inventory. A sum to which no part contributes is unknown. One to
// which some do not is a lower limit.
func addParts(s *holdfastv1.HardwareSummary, h *holdfastv1.HardwareInventory) {
	count := map[string]int32{}
	var cores, modules, space total
	for _, p := range h.GetParts() {
		count[p.GetKind()]++
		switch p.GetKind() {
		case "cpu":
			cores.add(int64(p.GetCores()), p.Cores != nil)
		case "memory":
			modules.add(p.GetBytes(), p.Bytes != nil)
		case "disk":
			space.add(p.GetBytes(), p.Bytes != nil)
		}
	}
	unread := func(kind string) bool { return slices.Contains(h.GetUnread(), kind) }
	partial := func(field string, is bool) {
		if is {
			s.Partial = append(s.Partial, field)
		}
	}
	counted := func(field, kind string) *int32 {
		n := count[kind]
		if n == 0 && unread(kind) {
			return nil
		}
		partial(field, unread(kind))
		return &n
	}
	s.Cpus = counted("cpus", "cpu")
	if cores.some {
		s.Cores = new(int32(cores.n))
		partial("cores", cores.absent || unread("cpu"))
	}
	switch {
	case h.MemoryBytes != nil:
		s.MemoryBytes = h.MemoryBytes
	case modules.some:
		s.MemoryBytes = &modules.n
	}
	partial("memory_bytes", s.MemoryBytes != nil && (modules.absent || unread("memory")))
	s.Disks = counted("disks", "disk")
	if space.some {
		s.DiskBytes = &space.n
		partial("disk_bytes", space.absent || unread("disk"))
	}
	s.Gpus = counted("gpus", "gpu")
}

// positive returns a quantity of which 0 means unknown.
func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}
