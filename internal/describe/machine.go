package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Cores formats a number of millicores; "" if it is unknown.
func Cores(millis int64) string {
	if millis == 0 {
		return ""
	}
	if millis%1000 == 0 {
		return Number(millis/1000, "core")
	}
	return fmt.Sprintf("%dm", millis)
}

// ShownAs returns why a machine is shown in another state than its phase: "shown as IN_SERVICE
// because …"; "" if both are the same.
func ShownAs(m *holdfastv1.Machine) string {
	s := m.GetStatus()
	state := s.GetEffectiveState()
	if Enum(state) == Enum(s.GetPhase()) || Enum(s.GetPhase()) == "" {
		return ""
	}
	text := "shown as " + state.String()
	switch {
	case s.GetActiveRunId() != "":
		return text + " because " + s.GetActiveRunId() + " is active"
	case state == holdfastv1.EffectiveState_IN_SERVICE:
		return text + " because " + inCluster(m)
	case s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE:
		return text + " until its node is seen in a cluster"
	}
	return text
}

// Idle returns the state of a machine without an active run and without an issue: "idle", and the
// phase if its node is in a cluster nevertheless.
func Idle(m *holdfastv1.Machine) string {
	s := m.GetStatus()
	shown := s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE
	if shown && s.GetPhase() != holdfastv1.MachineStatus_IN_SERVICE {
		return "idle in phase " + s.GetPhase().String() + ", " + inCluster(m)
	}
	return "idle"
}

func inCluster(m *holdfastv1.Machine) string {
	return "its node is still in cluster " +
		cmp.Or(m.GetStatus().GetClusterRef(), m.GetSpec().GetTargetClusterRef(), "default")
}

// PoweredOff returns since when a machine is off, and the run that turned it off.
func PoweredOff(s *holdfastv1.MachineStatus, now time.Time) string {
	for _, c := range s.GetConditions() {
		if c.GetType() != "PoweredOn" {
			continue
		}
		text := "powered off " + Age(now.Sub(c.GetLastTransition().AsTime())) + " ago"
		switch c.GetReason() {
		case "ByRun":
			return text + " by " + c.GetMessage()
		case "NotByRun":
			return text + ", not by a run"
		}
		return "powered off since it was first polled"
	}
	return "powered off"
}

// Drained returns since when the node of a machine takes no pods, and which step has drained it. It
// returns "" if it does, or if the machine is not in service.
func Drained(s *holdfastv1.MachineStatus, now time.Time) string {
	if s.GetEffectiveState() != holdfastv1.EffectiveState_IN_SERVICE {
		return ""
	}
	for _, c := range s.GetConditions() {
		if c.GetType() == "Drained" && c.GetStatus() {
			return "drained " + Age(now.Sub(c.GetLastTransition().AsTime())) + " ago, takes no pods"
		}
	}
	return ""
}

// Power returns the power of a machine as "on", "off" or "unknown"; "" if the peer that answered
// does not report it.
func Power(s *holdfastv1.MachineStatus) string { return strings.ToLower(Enum(s.GetPower())) }

// Quantity formats a quantity with its unit; "" if it is unknown.
func Quantity(v *float64, unit string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%g %s", *v, unit)
}

// AtLeast returns text, and says so if it is a lower limit: some of the summands are unknown.
func AtLeast(partial bool, text string) string {
	if partial && text != "" {
		return "at least " + text
	}
	return text
}

// Hardware returns a machine's hardware in one line: "2 CPUs, 64 cores, 512 GiB, 4 disks 15.4 TB,
// x86_64". Quantities that are unknown are left out, and lower limits are "at least 512 GiB".
func Hardware(h *holdfastv1.HardwareSummary) string {
	var all []string
	partial := func(field, text string) string { return AtLeast(slices.Contains(h.GetPartial(), field), text) }
	add := func(n int64, field, text string) {
		if n > 0 {
			all = append(all, partial(field, text))
		}
	}
	add(int64(h.GetCpus()), "cpus", Number(h.GetCpus(), "CPU"))
	add(int64(h.GetCores()), "cores", Number(h.GetCores(), "core"))
	add(h.GetMemoryBytes(), "memory_bytes", fmt.Sprintf("%d GiB", h.GetMemoryBytes()>>30))
	disks := Number(h.GetDisks(), "disk")
	if h.GetDiskBytes() > 0 {
		disks += " " + partial("disk_bytes", fmt.Sprintf("%.1f TB", float64(h.GetDiskBytes())/1e12))
	}
	add(int64(h.GetDisks()), "disks", disks)
	add(int64(h.GetGpus()), "gpus", Number(h.GetGpus(), "GPU"))
	if h.GetArch() != "" {
		all = append(all, h.GetArch())
	}
	return strings.Join(all, ", ")
}

// Meaning is how good a condition is.
type Meaning string

// The meanings of a condition.
const (
	Good    Meaning = "good"
	Bad     Meaning = "bad"
	Unclear Meaning = "unknown"
	Neutral Meaning = "neutral" // neither is better, such as the power of a free machine
)

// ConditionMeaning returns how good a condition is, which may not be its status: Degraded is bad if
// it is true.
func ConditionMeaning(s *holdfastv1.MachineStatus, c *holdfastv1.Condition) Meaning {
	good := c.GetStatus()
	switch c.GetType() {
	case "NeedsIntervention", "Degraded", "IdentityConflict":
		good = !good
	case "Drained":
		return Neutral
	case "InCustomerCluster", "Provisioned", "PoweredOn", "AgentReady":
		serves := s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE ||
			s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE
		if !good && !serves {
			return Neutral
		}
	}
	switch {
	case c.GetUnknown():
		return Unclear
	case good:
		return Good
	}
	return Bad
}
