package lists

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// Hardware returns the list of the hardware of machines.
func Hardware() Kind {
	return Kind{
		Name: "hardware", Title: "Hardware", One: "machine", Many: "machines",
		Example: `rack = "r7" AND node.vendor = "Dell*"`,
		Hints: []Hint{
			{"in service", "effective_state = IN_SERVICE"},
			{"free", "effective_state = READY AND phase != IN_SERVICE"},
			{"a part has failed", "conditions.Degraded = true"},
		},
		Create: "holdfast machine register --id m-1 --rack r7",
		Note: "The hardware comes from the BMC (`holdfast machine inventory MACHINE`), else from the agent. " +
			"The page of a machine has each part.",
		Columns: []string{
			"Machine", "Pool", "Location", "Rack", "Model", "Serial", "CPUs", "Cores", "Memory", "Disks", "Disk space", "GPUs",
			"Arch",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewMachineServiceClient(c).ListMachines(ctx, &holdfastv1.ListMachinesRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetMachines(), hardwareRow), resp.GetNextPageToken()}, err
		},
	}
}

func hardwareRow(m *holdfastv1.Machine) Row {
	s, spec, n := cmp.Or(m.GetHardwareSummary(), &holdfastv1.HardwareSummary{}), m.GetSpec(), m.GetNode()
	number := func(n *int32, field string) display.Cell { // empty cells are shown as "-"
		if n == nil || *n == 0 {
			return display.Cell{Class: "num"}
		}
		return quantity(s, field, describe.Count(int(*n)))
	}
	size := func(n *int64, field string) display.Cell {
		if n == nil {
			return display.Cell{Class: "num"}
		}
		return quantity(s, field, display.Bytes(*n))
	}
	return Row{m.GetMachineId(), []display.Cell{
		display.Machines(m.GetMachineId()),
		display.Text(spec.GetPool()),
		display.Text(spec.GetLocation()),
		display.Text(spec.GetRack()),
		display.Text(strings.TrimSpace(n.GetVendor() + " " + n.GetModel())),
		display.Text(cmp.Or(spec.GetSerial(), n.GetSerialNumber())),
		number(s.Cpus, "cpus"),
		number(s.Cores, "cores"),
		size(s.MemoryBytes, "memory_bytes"),
		number(s.Disks, "disks"),
		size(s.DiskBytes, "disk_bytes"),
		number(s.Gpus, "gpus"),
		display.Text(s.GetArch()),
	}}
}

// quantity returns a cell with a quantity, which may be a lower limit.
func quantity(s *holdfastv1.HardwareSummary, field, text string) display.Cell {
	text = describe.AtLeast(slices.Contains(s.GetPartial(), field), text)
	return display.Cell{Class: "num", Parts: []display.Part{{Text: text}}}
}
