package describe

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Attention returns, in a few words, why a machine needs attention, is off, or is shown in
// another state than its phase. It returns "" for a machine with nothing to explain.
func Attention(m *holdfastv1.Machine, now time.Time) string {
	s := m.GetStatus()
	var all []string
	off := s.GetPower() == holdfastv1.PowerState_OFF
	for _, i := range s.GetIssues() {
		if i.GetType() != "PoweredOff" && !repeated(i, s.GetIssues()) {
			all = append(all, Issue(i))
		}
	}
	if off {
		all = append([]string{PoweredOff(s, now)}, all...)
	}
	if phase := s.GetPhase(); s.GetActiveRunId() == "" && phase != 0 && Enum(phase) != Enum(s.GetEffectiveState()) {
		all = append(all, "phase "+phase.String())
	}
	return strings.Join(all, ", ")
}

// repeated reports whether another issue has the reason of this one, and more: a failed run that
// installs is InstallFailed and NeedsIntervention with one error.
func repeated(i *holdfastv1.Issue, all []*holdfastv1.Issue) bool {
	for _, other := range all {
		if i.GetReason() != "" && len(other.GetReason()) > len(i.GetReason()) &&
			strings.Contains(other.GetReason(), i.GetReason()) {
			return true
		}
	}
	return false
}

// IssueText returns an issue as a sentence without its subject: "BMC does not answer
// (RedfishTimeout)".
func IssueText(i *holdfastv1.Issue) string {
	words, ok := map[string]string{
		"Unreachable": "host does not answer", "BMCUnreachable": "BMC does not answer",
		"NotInCluster": "not seen in its cluster", "AgentExpired": "agent sends no heartbeats",
		"Degraded": "a part has failed", "InstallFailed": "installation failed",
		"NeedsIntervention": "needs an operator",
	}[i.GetType()]
	if !ok {
		return Issue(i)
	}
	return Issue(&holdfastv1.Issue{Type: words, Reason: Cut(i.GetReason(), headline)})
}

// Issue returns an issue as its type and its reason, or as the step that failed.
func Issue(i *holdfastv1.Issue) string {
	if i.GetReason() == "" {
		return i.GetType()
	}
	if at, ok := strings.CutPrefix(i.GetReason(), "StepFailed: "); ok {
		return "failed at " + at
	}
	return i.GetType() + " (" + i.GetReason() + ")"
}

// Cut shortens a text to a number of characters.
func Cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
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

// Power returns the power of a machine as "on", "off" or "unknown"; "" if the peer that answered
// does not report it.
func Power(s *holdfastv1.MachineStatus) string { return strings.ToLower(Enum(s.GetPower())) }

// Hardware returns a machine's hardware in one line: "2 CPUs, 64 cores, 512 GiB, 4 disks 15.4 TB,
// x86_64".
func Hardware(h *holdfastv1.HardwareSummary) string {
	var all []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(int64(h.GetCpus()), "%s", several(h.GetCpus(), "CPU"))
	add(int64(h.GetCores()), "%s", several(h.GetCores(), "core"))
	add(h.GetMemoryBytes(), "%d GiB", h.GetMemoryBytes()>>30)
	disks := several(h.GetDisks(), "disk")
	if h.GetDiskBytes() > 0 {
		disks += fmt.Sprintf(" %.1f TB", float64(h.GetDiskBytes())/1e12)
	}
	add(int64(h.GetDisks()), "%s", disks)
	add(int64(h.GetGpus()), "%s", several(h.GetGpus(), "GPU"))
	if h.GetArch() != "" {
		all = append(all, h.GetArch())
	}
	return strings.Join(all, ", ")
}

func several(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
	case "NeedsIntervention", "Degraded":
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
