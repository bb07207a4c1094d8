package describe

import (
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
	if text := Drained(s, now); text != "" {
		all = append(all, text)
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
		"BMCUnknown":   "it is not known whether the BMC answers",
		"NotInCluster": "not seen in its cluster", "AgentExpired": "agent sends no heartbeats",
		"Degraded": "a part has failed", "InstallFailed": "installation failed",
		"NeedsIntervention": "needs an operator", "IdentityConflict": "seems to share its identity with another machine",
	}[i.GetType()]
	if !ok {
		return Issue(i)
	}
	if said := bmcWords(i.GetReason()); i.GetType() == "BMCUnreachable" && said != "" {
		words = said
	}
	return Issue(&holdfastv1.Issue{Type: words, Reason: Cut(i.GetReason(), headline)})
}

// bmcWords returns the words for a BMC that answers, but is of no use, by the reason; else "".
func bmcWords(reason string) string {
	switch reason {
	case "AuthFailed":
		return "BMC refuses the account"
	case "BadAnswer":
		return "BMC answers, but not usably"
	case "BreakerOpen":
		return "BMC did not answer several times"
	}
	return ""
}

// Issue returns an issue as its type and its reason, or as the step that failed.
func Issue(i *holdfastv1.Issue) string {
	if i.GetReason() == "" {
		return i.GetType()
	}
	if at, ok := strings.CutPrefix(i.GetReason(), "StepFailed: "); ok {
		return "failed at " + at
	}
	if i.GetType() == "Canceled" {
		return "canceled at " + i.GetReason()
	}
	return i.GetType() + " (" + i.GetReason() + ")"
}
