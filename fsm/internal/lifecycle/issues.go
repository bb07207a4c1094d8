package lifecycle

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// issues returns the reasons to look at a machine, the most urgent first. It is the only
// definition of a machine that needs attention. The effective state and the power must be set.
func issues(m *holdfastv1.Machine) []*holdfastv1.Issue {
	s := m.GetStatus()
	if s.GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	var all []*holdfastv1.Issue
	add := func(u holdfastv1.Issue_Urgency, kind, reason string, since *timestamppb.Timestamp) {
		all = append(all, &holdfastv1.Issue{Urgency: u, Type: kind, Reason: reason, Since: since})
	}
	if s.GetNodeState() == holdfastv1.Node_INSTALL_FAILED {
		add(holdfastv1.Issue_URGENT, "InstallFailed", m.GetNode().GetLastInstallError(), m.GetNode().GetStateChangedAt())
	}
	if s.GetAgentState() == holdfastv1.Agent_EXPIRED {
		add(holdfastv1.Issue_DOWN, "AgentExpired", "", m.GetAgent().GetLastKeepalive())
	}
	serving := s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE ||
		s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE
	off := serving && s.GetPower() == holdfastv1.PowerState_OFF
	for _, c := range s.GetConditions() {
		if c.GetUnknown() {
			if c.GetType() == BMCReachable && failing(c) {
				add(holdfastv1.Issue_MINOR, "BMCUnknown", c.GetReason(), c.GetUnknownSince())
			}
			continue
		}
		kind, urgency := issueOf(c, serving, off)
		if urgency == holdfastv1.Issue_URGENCY_UNSPECIFIED {
			continue
		}
		reason := cmp.Or(c.GetReason(), c.GetMessage())
		if kind == Canceled || kind == IdentityConflict {
			reason = c.GetMessage()
		}
		add(urgency, kind, reason, c.GetLastTransition())
	}
	slices.SortStableFunc(all, func(a, b *holdfastv1.Issue) int { return cmp.Compare(a.GetUrgency(), b.GetUrgency()) })
	return all
}

// failing reports whether the polls of a BMC fail, by its unknown condition. A poll that fails once
// changes nothing. A machine without a BMC, or that cannot be polled as it is configured, has
// another reason. Only a BMC that was asked counts: one that is stale did not answer the last time.
func failing(c *holdfastv1.Condition) bool {
	if c.GetReason() == Stale {
		return !c.GetStatus()
	}
	return slices.Contains([]string{"ProviderTimeout", "ProviderFailed", "AuthFailed"}, c.GetReason())
}

// issueOf returns the issue that a condition is, if it is one. A machine that is off cannot answer:
// PoweredOff then stands for Unreachable.
func issueOf(c *holdfastv1.Condition, serving, off bool) (kind string, u holdfastv1.Issue_Urgency) {
	switch t := c.GetType(); {
	case t == NeedsIntervention && c.GetStatus():
		return t, holdfastv1.Issue_URGENT
	case t == Canceled && c.GetStatus() && c.GetReason() != CanceledHarmless:
		return t, holdfastv1.Issue_URGENT
	case t == Canceled && c.GetStatus():
		return t, holdfastv1.Issue_MINOR
	case t == PoweredOn && off:
		return "PoweredOff", holdfastv1.Issue_DOWN
	case t == Reachable && !c.GetStatus() && serving && !off:
		return "Unreachable", holdfastv1.Issue_DOWN
	case t == InCluster && !c.GetStatus() && serving:
		return "NotInCluster", holdfastv1.Issue_DOWN
	case (t == Degraded || t == IdentityConflict) && c.GetStatus():
		return t, holdfastv1.Issue_MINOR
	case t == BMCReachable && !c.GetStatus():
		return "BMCUnreachable", holdfastv1.Issue_MINOR
	}
	return "", holdfastv1.Issue_URGENCY_UNSPECIFIED
}
