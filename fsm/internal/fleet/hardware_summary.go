package fleet

import (
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
	if s.GetCpus() == 0 {
		s.Cores = int32(a.GetCpuMillicores() / 1000)
	}
	if s.GetMemoryBytes() == 0 {
		s.MemoryBytes = a.GetMemoryMib() << 20
	}
	if s.GetGpus() == 0 {
		s.Gpus = a.GetGpuCount()
	}
	if proto.Size(s) == 0 {
		return nil
	}
	return s
}

// addParts counts the parts of an inventory.
func addParts(s *holdfastv1.HardwareSummary, h *holdfastv1.HardwareInventory) {
	s.MemoryBytes = h.GetMemoryBytes()
	var modules int64
	for _, p := range h.GetParts() {
		switch p.GetKind() {
		case "cpu":
			s.Cpus++
			s.Cores += p.GetCores()
		case "memory":
			modules += p.GetBytes()
		case "disk":
			s.Disks++
			s.DiskBytes += p.GetBytes()
		case "gpu":
			s.Gpus++
		}
	}
	if s.GetMemoryBytes() == 0 {
		s.MemoryBytes = modules
	}
}
