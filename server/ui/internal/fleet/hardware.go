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
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n > 0:
			all = append(all, describe.Count(int(n))+" "+many)
		}
	}
	add(h.CPUs, "CPU", "CPUs")
	add(h.Cores, "core", "cores")
	if h.Memory > 0 {
		all = append(all, display.Bytes(h.Memory)+" of memory")
	}
	add(h.Disks, "disk", "disks")
	if h.DiskBytes > 0 {
		all = append(all, display.Bytes(h.DiskBytes)+" of disk space")
	}
	add(h.GPU, "GPU", "GPUs")
	if h.Known == 0 {
		return ""
	}
	text := strings.Join(all, ", ")
	if h.Known < h.Machines {
		text += fmt.Sprintf("; the hardware of %s is unknown", describe.Count(h.Machines-h.Known))
	}
	return text
}
