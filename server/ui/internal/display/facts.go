package display

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Fact is a named value of a machine or a step: a text or a time.
type Fact struct {
	Name, Value string
	At          *timestamppb.Timestamp
}

// Facts returns the known facts of a machine, in the order of `machine get`: those declared
// by operators, then those reported by its agent and installer.
func Facts(m *holdfastv1.Machine) []Fact {
	var all []Fact
	row := func(name, value string) {
		if value != "" {
			all = append(all, Fact{Name: name, Value: value})
		}
	}
	when := func(name string, at *timestamppb.Timestamp) {
		if at != nil {
			all = append(all, Fact{Name: name, At: at})
		}
	}
	n, a := m.GetNode(), m.GetAgent()
	for f := range machinefield.All() {
		row(f.GetLabel(), describe.Declared(m, f))
	}
	row("hardware", describe.Hardware(m.GetHardwareSummary()))
	for _, k := range slices.Sorted(maps.Keys(m.GetLabels())) {
		row("label "+k, m.GetLabels()[k])
	}
	for _, f := range describe.Host(m) {
		row(f.Name, f.Value)
	}
	row("workflow", n.GetWorkflowId())
	row("install error", n.GetLastInstallError())
	if a.GetRegisteredAt() != nil {
		row("cpu", describe.Cores(a.GetCpuMillicores()))
		if n := a.GetMemoryMib(); n > 0 {
			row("memory", Bytes(n<<20))
		}
		row("gpus", strconv.Itoa(int(a.GetGpuCount())))
		when("registered", a.GetRegisteredAt())
	}
	when("last keepalive", a.GetLastKeepalive())
	row("agent version", a.GetAgentVersion())
	row("in use", describe.InUse(a.GetMetrics()))
	row("tags", strings.Join(n.GetTags(), ", "))
	when("last seen", n.GetLastSeenAt())
	when("created", m.GetCreatedAt())
	return all
}
