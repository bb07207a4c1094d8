package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// factTable lists the known facts that the agent and the installer have reported.
func factTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	t := render.NewTable("FACT", "VALUE")
	row := func(name, value string) {
		if value != "" {
			t.Row(name, value)
		}
	}
	n, a := m.GetNode(), m.GetAgent()
	for _, f := range describe.Host(m) {
		row(f.Name, f.Value)
	}
	if a.GetRegisteredAt() != nil {
		row("cpu", describe.Cores(a.GetCpuMillicores()))
		row("memory", mebibytes(a.GetMemoryMib()))
		row("gpus", strconv.Itoa(int(a.GetGpuCount())))
		row("registered", age(now, a.GetRegisteredAt()))
	}
	row("last keepalive", age(now, a.GetLastKeepalive()))
	row("agent version", a.GetAgentVersion())
	row("in use", describe.InUse(a.GetMetrics()))
	row("tags", strings.Join(n.GetTags(), ","))
	row("last seen", age(now, n.GetLastSeenAt()))
	return t
}

func mebibytes(n int64) string {
	if n > 0 && n%1024 == 0 {
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}
