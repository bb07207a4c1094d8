package describe

import (
	"cmp"
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Fact is a named value.
type Fact struct{ Name, Value string }

// Host returns the facts that identify a machine's host, as its agent and its installer reported
// them. The value of an unknown fact is empty.
func Host(m *holdfastv1.Machine) []Fact {
	n, a := m.GetNode(), m.GetAgent()
	return []Fact{
		{"hostname", cmp.Or(a.GetHostname(), n.GetHostname())},
		{"address", cmp.Or(a.GetPrivateIp(), n.GetIpAddress())},
		{"mac address", a.GetMacAddress()},
		{"vendor", n.GetVendor()},
		{"model", n.GetModel()},
		{"serial number", n.GetSerialNumber()},
		{"system uuid", n.GetSystemUuid()},
		{"arch", n.GetArch()},
		{"boot mode", n.GetBootMode()},
	}
}

// InUse formats the metrics of a keepalive; "" if there are none.
func InUse(x *holdfastv1.AgentMetrics) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("cpu %.0f%%, memory %.0f%%, free gpus %d", x.GetCpuUtilizationPct(),
		x.GetMemoryUtilizationPct(), x.GetFreeGpuCount())
}

// Cores formats a number of millicores.
func Cores(millis int64) string {
	if millis%1000 == 0 {
		return fmt.Sprintf("%d cores", millis/1000)
	}
	return fmt.Sprintf("%dm", millis)
}
