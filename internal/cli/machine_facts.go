package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// factTable lists the known facts that the agent and the installer have reported.
func factTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	t := render.NewTable("FACT", "VALUE")
	row := func(name, value string) {
		if value != "" {
			t.Row(plain(name), plain(value))
		}
	}
	n, a := m.GetNode(), m.GetAgent()
	row("hostname", first(a.GetHostname(), n.GetHostname()))
	row("address", first(a.GetPrivateIp(), n.GetIpAddress()))
	row("mac address", a.GetMacAddress())
	row("vendor", n.GetVendor())
	row("model", n.GetModel())
	row("serial number", n.GetSerialNumber())
	row("system uuid", n.GetSystemUuid())
	row("arch", n.GetArch())
	row("boot mode", n.GetBootMode())
	if a.GetRegisteredAt() != nil {
		row("cpu", cores(a.GetCpuMillicores()))
		row("memory", mebibytes(a.GetMemoryMib()))
		row("gpus", strconv.Itoa(int(a.GetGpuCount())))
		row("registered", render.Ago(now, at(a.GetRegisteredAt())))
	}
	row("last keepalive", agoIfAny(now, at(a.GetLastKeepalive())))
	row("agent version", a.GetAgentVersion())
	row("in use", inUse(a.GetMetrics()))
	row("tags", strings.Join(n.GetTags(), ","))
	row("last seen", agoIfAny(now, at(n.GetLastSeenAt())))
	return t
}

// inUse formats the metrics of a keepalive; "" if there are none.
func inUse(x *holdfastv1.AgentMetrics) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("cpu %.0f%%, memory %.0f%%, free gpus %d", x.GetCpuUtilizationPct(),
		x.GetMemoryUtilizationPct(), x.GetFreeGpuCount())
}

// agoIfAny returns the age of a time, or "" if it is not set.
func agoIfAny(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return render.Ago(now, at)
}

func cores(millis int64) string {
	if millis%1000 == 0 {
		return fmt.Sprintf("%d cores", millis/1000)
	}
	return fmt.Sprintf("%dm", millis)
}

func mebibytes(n int64) string {
	if n > 0 && n%1024 == 0 {
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}
