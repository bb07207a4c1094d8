package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// troubled is the filter for machines that may have an issue. issuesOf decides: a machine that
// is not in service may be powered off.
const troubled = "NOT phase = RETIRED AND (conditions.NeedsIntervention = true OR node_state = INSTALL_FAILED OR " +
	"conditions.Degraded = true OR " +
	"conditions.BMCReachable = false OR conditions.Reachable = false OR conditions.InCustomerCluster = false OR " +
	"agent_state = EXPIRED)"

// urgency orders issues: the smaller, the more urgent.
type urgency int

const (
	urgent urgency = iota
	away
	minor
	none
)

func (u urgency) text() render.Text {
	switch u {
	case urgent:
		return render.T("urgent", render.Red)
	case away:
		return render.T("down", render.Red)
	case minor:
		return render.T("minor", render.Yellow)
	}
	return plain("")
}

// issue is one problem of a machine.
type issue struct {
	urgency urgency
	text    string
	since   time.Time
}

// issuesOf lists the problems of a machine, the most urgent first.
func issuesOf(m *holdfastv1.Machine) []issue {
	var all []issue
	status := m.GetStatus()
	serving := status.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE
	for u := urgent; u < none; u++ {
		if u == urgent && status.GetNodeState() == holdfastv1.Node_INSTALL_FAILED {
			all = append(all, issue{u, "InstallFailed" + because(m.GetNode().GetLastInstallError()),
				at(m.GetNode().GetStateChangedAt())})
		}
		if u == away && status.GetAgentState() == holdfastv1.Agent_EXPIRED {
			all = append(all, issue{u, "AgentExpired", at(m.GetAgent().GetLastKeepalive())})
		}
		for _, c := range status.GetConditions() {
			if !c.GetUnknown() && conditionUrgency(c, serving) == u {
				all = append(all, issue{u, issueName(c) + because(cmp.Or(c.GetReason(), c.GetMessage())),
					at(c.GetLastTransition())})
			}
		}
	}
	return all
}

func conditionUrgency(c *holdfastv1.Condition, serving bool) urgency {
	switch {
	case c.GetType() == "NeedsIntervention" && c.GetStatus():
		return urgent
	case (c.GetType() == "Reachable" || c.GetType() == "InCustomerCluster") && !c.GetStatus() && serving:
		return away
	case c.GetType() == "Degraded" && c.GetStatus(), c.GetType() == "BMCReachable" && !c.GetStatus():
		return minor
	}
	return none
}

// issueName names the problem of a false condition.
func issueName(c *holdfastv1.Condition) string {
	switch c.GetType() {
	case "Reachable":
		return "Unreachable"
	case "BMCReachable":
		return "BMCUnreachable"
	case "InCustomerCluster":
		return "NotInCluster"
	}
	return c.GetType()
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + shorten(why) + ")"
}

// worst returns the highest urgency of a machine, and its start.
func worst(m *holdfastv1.Machine) (urgency, time.Time) {
	all := issuesOf(m)
	if len(all) == 0 {
		return none, time.Time{}
	}
	return all[0].urgency, all[0].since
}

// byUrgency sorts by urgency, then by duration, the longest first.
func byUrgency(x, y *holdfastv1.Machine) int {
	ux, sx := worst(x)
	uy, sy := worst(y)
	return cmp.Or(cmp.Compare(ux, uy), sx.Compare(sy), fields.Natural(x.GetMachineId(), y.GetMachineId()))
}

func issueKind() kind[*holdfastv1.Machine] {
	return kind[*holdfastv1.Machine]{
		noun: "machine", list: "machines", name: (*holdfastv1.Machine).GetMachineId,
		header: []string{"MACHINE", "URGENCY", "SINCE", "STATE", "RACK", "ISSUES"},
		wide:   []string{"LOCATION", "POOL", "PROVIDER", "BMC", "RUN"},
		row: func(m *holdfastv1.Machine, now time.Time) []any {
			u, since := worst(m)
			var texts []string
			for _, i := range issuesOf(m) {
				texts = append(texts, i.text)
			}
			spec := m.GetSpec()
			return []any{
				m.GetMachineId(), u.text(), render.Ago(now, since),
				render.State(describe.Enum(m.GetStatus().GetEffectiveState())), spec.GetRack(), strings.Join(texts, ", "),
				spec.GetLocation(), spec.GetPool(), cmp.Or(spec.GetProvider(), m.GetLabels()["provider"]),
				spec.GetBmcEndpoint(), m.GetStatus().GetActiveRunId(),
			}
		},
	}
}

func (a *app) machineIssues() *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Machine]{
		use: "issues", short: "List the machines that somebody should look at, the most urgent first",
		long: `List the machines that somebody should look at, the most urgent first; among equals, what has lasted longest.

urgent: somebody has to act (NeedsIntervention), or its install has failed. down: it is in service and cannot be reached, is not in its
cluster, or its agent is silent. minor: it is degraded, or its BMC does not answer. Retired machines are left out. 'machine why' tells the
rest.`,
		example: `  holdfast machine issues
  holdfast machine issues --filter 'labels.site = "fra1"' -o wide
  holdfast machine issues --limit 1 -o name | xargs -r holdfast machine why`,
		kind: issueKind(), plural: "machines with issues", filter: `labels.rack = "r7"`, order: byUrgency,
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Machine, string, error) {
			if q.filter = strings.TrimSpace(q.filter); q.filter != "" {
				q.filter = "(" + q.filter + ") AND "
			}
			q.filter += troubled
			items, next, err := machineKind().page(ctx, c, q)
			var with []*holdfastv1.Machine
			for _, m := range items {
				if u, _ := worst(m); u != none {
					with = append(with, m)
				}
			}
			return with, next, err
		},
		empty: "no machine has an issue",
	})
}
