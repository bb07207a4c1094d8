package lists

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"

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
	s, spec, n := m.GetHardwareSummary(), m.GetSpec(), m.GetNode()
	known := func(n int32) display.Cell {
		if n == 0 {
			return display.Cell{Class: "num"}
		}
		return display.Number(n)
	}
	return Row{m.GetMachineId(), []display.Cell{
		display.Machines(m.GetMachineId()),
		display.Text(spec.GetPool()),
		display.Text(spec.GetLocation()),
		display.Text(spec.GetRack()),
		display.Text(strings.TrimSpace(n.GetVendor() + " " + n.GetModel())),
		display.Text(cmp.Or(spec.GetSerial(), n.GetSerialNumber())),
		known(s.GetCpus()),
		known(s.GetCores()),
		display.Size(s.GetMemoryBytes()),
		known(s.GetDisks()),
		display.Size(s.GetDiskBytes()),
		known(s.GetGpus()),
		display.Text(s.GetArch()),
	}}
}
