package cli

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// derivedIssues returns the issues of a machine from a peer that is too old to report them, which
// shows in the power that is not set. It knows the conditions only.
func derivedIssues(m *holdfastv1.Machine) []*holdfastv1.Issue {
	s := m.GetStatus()
	if s.GetPower() != holdfastv1.PowerState_POWER_STATE_UNSPECIFIED || s.GetPhase() == holdfastv1.MachineStatus_RETIRED {
		return nil
	}
	var all []*holdfastv1.Issue
	for _, c := range s.GetConditions() {
		i := &holdfastv1.Issue{Type: c.GetType(), Reason: c.GetReason(), Since: c.GetLastTransition()}
		switch on := c.GetStatus() && !c.GetUnknown(); {
		case c.GetType() == "NeedsIntervention" && on:
			i.Urgency = holdfastv1.Issue_URGENT
		case c.GetType() == "Reachable" && !c.GetStatus() && !c.GetUnknown() &&
			s.GetEffectiveState() == holdfastv1.EffectiveState_IN_SERVICE:
			i.Urgency, i.Type = holdfastv1.Issue_DOWN, "Unreachable"
		case c.GetType() == "Degraded" && on:
			i.Urgency = holdfastv1.Issue_MINOR
		default:
			continue
		}
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(x, y *holdfastv1.Issue) int { return int(x.GetUrgency() - y.GetUrgency()) })
	return all
}

// troubledPage returns a page of the machines that need attention. A peer that is too old to select
// them sends all machines of the page, and the selection is made here.
func troubledPage(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Machine, string, error) {
	all := q
	if q.filter = troubled; strings.TrimSpace(all.filter) != "" {
		q.filter = "(" + all.filter + ") AND " + troubled
	}
	items, next, err := machineKind().page(ctx, c, q)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `no field "needs_attention"`) {
		return items, next, err
	}
	items, next, err = machineKind().page(ctx, c, all)
	return slices.DeleteFunc(items, func(m *holdfastv1.Machine) bool { return worst(m) == nil }), next, err
}
