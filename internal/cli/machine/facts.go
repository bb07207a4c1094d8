package machine

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// factTable lists the facts of a machine: those of operators, then those of the agent and the
// installer.
func factTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	t := render.NewTable("FACT", "VALUE")
	row := func(name, value string) {
		if value != "" {
			t.Row(name, value)
		}
	}
	n, a := m.GetNode(), m.GetAgent()
	for f := range machinefield.All() {
		if !f.GetUsual() { // the line above this table has those
			row(f.GetLabel(), describe.Declared(m, f))
		}
	}
	row("labels", app.Joined(m.GetLabels()).Value)
	for _, f := range describe.Host(m) {
		row(f.Name, f.Value)
	}
	if a.GetRegisteredAt() != nil {
		row("cpu", describe.Cores(a.GetCpuMillicores()))
		row("memory", mebibytes(a.GetMemoryMib()))
		row("gpus", strconv.Itoa(int(a.GetGpuCount())))
		row("registered", app.Age(now, a.GetRegisteredAt()))
	}
	row("last keepalive", app.Age(now, a.GetLastKeepalive()))
	row("agent version", a.GetAgentVersion())
	row("in use", describe.InUse(a.GetMetrics()))
	row("tags", strings.Join(n.GetTags(), ","))
	row("last seen", app.Age(now, n.GetLastSeenAt()))
	return t
}

// mebibytes formats a size; "" if it is unknown.
func mebibytes(n int64) string {
	switch {
	case n == 0:
		return ""
	case n%1024 == 0:
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}

// hardwareTable lists the hardware inventory that the BMC reported.
func hardwareTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	t := render.NewTable("PART", "SLOT", "WHAT", "SERIAL", "STATE")
	h := m.GetHardware()
	if h == nil {
		return t
	}
	t.Row("system", "", strings.TrimSpace(h.GetManufacturer()+" "+h.GetModel()), h.GetSerial(),
		"read "+app.Age(now, h.GetObservedAt())+" from the "+h.GetSource())
	for _, f := range [][2]string{{"bios", h.GetBiosVersion()}, {"bmc", h.GetBmcVersion()}} {
		if f[1] != "" {
			t.Row(f[0], "", f[1], "", "")
		}
	}
	for _, p := range h.GetParts() {
		t.Row(p.GetKind(), p.GetSlot(), partWords(p), cmp.Or(p.GetSerial(), p.GetMac()), p.GetState())
	}
	for _, missing := range h.GetMissing() {
		t.Row("missing", "", missing, "", "")
	}
	if n := h.GetLeftOut(); n > 0 {
		t.Row("left out", "", fmt.Sprintf("%d more parts", n), "", "")
	}
	return t
}

// partWords describes a part.
func partWords(p *holdfastv1.HardwarePart) string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	switch p.GetKind() {
	case "memory":
		add(p.GetBytes() > 0, "%d GiB", p.GetBytes()>>30)
	case "disk":
		add(p.GetBytes() > 0, "%d GB", p.GetBytes()/1e9)
	}
	add(p.GetModel() != "", "%s", p.GetModel())
	add(p.GetFirmware() != "", "firmware %s", p.GetFirmware())
	add(p.GetCores() > 0, "%d cores", p.GetCores())
	add(p.GetThreads() > 0, "%d threads", p.GetThreads())
	add(p.GetMbps() > 0, "%d Mb/s", p.GetMbps())
	return strings.Join(words, ", ")
}
