package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// Hardware is the sum of the hardware of machines.
type Hardware struct {
	Machines, Known         int // Known: machines whose hardware is known
	CPUs, Cores, Disks, GPU int64
	Memory, DiskBytes       int64
	partial                 map[string]bool // the fields that are lower limits
}

// add adds a machine.
func (h *Hardware) add(m *holdfastv1.Machine) {
	h.Machines++
	s := m.GetHardwareSummary()
	if s == nil {
		return
	}
	h.Known++
	h.CPUs += int64(s.GetCpus())
	h.Cores += int64(s.GetCores())
	h.Disks += int64(s.GetDisks())
	h.GPU += int64(s.GetGpus())
	h.Memory += s.GetMemoryBytes()
	h.DiskBytes += s.GetDiskBytes()
	for _, f := range append(unknown(s), s.GetPartial()...) {
		if h.partial == nil {
			h.partial = map[string]bool{}
		}
		h.partial[f] = true
	}
}

// unknown returns the fields of a summary that are not known.
func unknown(s *holdfastv1.HardwareSummary) []string {
	var all []string
	for field, known := range map[string]bool{
		"cpus": s.Cpus != nil, "cores": s.Cores != nil || s.Cpus != nil && s.GetCpus() == 0,
		"memory_bytes": s.MemoryBytes != nil,
		"disks":        s.Disks != nil, "disk_bytes": s.DiskBytes != nil || s.Disks != nil && s.GetDisks() == 0,
		"gpus": s.Gpus != nil,
	} {
		if !known {
			all = append(all, field)
		}
	}
	return all
}

// Sum returns the hardware of the machines that match, or of the first most of them and false.
func Sum(
	ctx context.Context, c holdfastv1.MachineServiceClient, filter string, most int,
) (h Hardware, all bool, err error) {
	all = true
	err = Each(ctx, c, filter, func(m *holdfastv1.Machine) bool {
		if all = h.Machines < most; all {
			h.add(m)
		}
		return all
	})
	return h, all, err
}

// String returns the sums in words, or "" if nothing is known.
func (h Hardware) String() string {
	var all []string
	add := func(n int64, field, text string) {
		if n > 0 {
			all = append(all, describe.AtLeast(h.partial[field], text))
		}
	}
	count := func(n int64, field, one, many string) {
		text := describe.Count(int(n)) + " " + many
		if n == 1 {
			text = "1 " + one
		}
		add(n, field, text)
	}
	count(h.CPUs, "cpus", "CPU", "CPUs")
	count(h.Cores, "cores", "core", "cores")
	add(h.Memory, "memory_bytes", display.Bytes(h.Memory)+" of memory")
	count(h.Disks, "disks", "disk", "disks")
	add(h.DiskBytes, "disk_bytes", display.Bytes(h.DiskBytes)+" of disk space")
	count(h.GPU, "gpus", "GPU", "GPUs")
	if h.Known == 0 {
		return ""
	}
	text := strings.Join(all, ", ")
	if h.Known < h.Machines {
		text += fmt.Sprintf("; the hardware of %s is unknown", describe.Count(h.Machines-h.Known))
	}
	return text
}
