package machine

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// troubled is the filter for the machines that need attention. The API decides which do.
const troubled = "needs_attention = true"

// UrgencyText returns how soon somebody has to look.
func UrgencyText(u holdfastv1.Issue_Urgency) render.Text {
	color := render.Red
	if u == holdfastv1.Issue_MINOR {
		color = render.Yellow
	}
	return render.T(strings.ToLower(describe.Enum(u)), color)
}

// IssuesOf returns the issues of a machine, the most urgent first.
func IssuesOf(m *holdfastv1.Machine) []*holdfastv1.Issue {
	return m.GetStatus().GetIssues()
}

// Worst returns the most urgent issue of a machine, or nil.
func Worst(m *holdfastv1.Machine) *holdfastv1.Issue {
	if all := IssuesOf(m); len(all) > 0 {
		return all[0]
	}
	return nil
}

// byUrgency sorts by urgency, then by duration, the longest first.
func byUrgency(x, y *holdfastv1.Machine) int {
	wx, wy := Worst(x), Worst(y)
	return cmp.Or(cmp.Compare(wx.GetUrgency(), wy.GetUrgency()), app.At(wx.GetSince()).Compare(app.At(wy.GetSince())),
		fields.Natural(x.GetMachineId(), y.GetMachineId()))
}

func issueKind() output.Kind[*holdfastv1.Machine] {
	return output.Kind[*holdfastv1.Machine]{
		Noun: "machine", List: "machines", Name: (*holdfastv1.Machine).GetMachineId,
		Header: []string{"MACHINE", "URGENCY", "SINCE", "STATE", "POWER", "RACK", "WHY"},
		Wide:   []string{"LOCATION", "POOL", "PROVIDER", "BMC", "RUN"},
		Row: func(m *holdfastv1.Machine, now time.Time) []any {
			spec, most := m.GetSpec(), Worst(m)
			return []any{
				m.GetMachineId(), UrgencyText(most.GetUrgency()), render.Ago(now, app.At(most.GetSince())),
				render.State(describe.Enum(m.GetStatus().GetEffectiveState())), kinds.PowerText(m.GetStatus()), spec.GetRack(),
				describe.Attention(m, now),
				spec.GetLocation(), spec.GetPool(), cmp.Or(spec.GetProvider(), m.GetLabels()["provider"]),
				spec.GetBmcEndpoint(), m.GetStatus().GetActiveRunId(),
			}
		},
	}
}

// troubledPage returns a page of the machines that need attention.
func troubledPage(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Machine, string, error) {
	f := troubled
	if strings.TrimSpace(q.Filter) != "" {
		f = "(" + q.Filter + ") AND " + troubled
	}
	q.Filter = f
	return kinds.Machine().Page(ctx, c, q)
}

func machineIssues(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Machine]{
		Use: "issues", Short: "List the machines that somebody should look at, the most urgent first",
		Long: `List the machines that somebody should look at, the most urgent first; among equals, what has lasted longest.

urgent: somebody has to act (NeedsIntervention), or its install has failed. down: it is in service and is powered off, cannot be
reached or is not in its cluster, or its agent is silent. minor: it is degraded, or its BMC does not answer. Retired machines are left
out. The filter needs_attention = true selects the same machines in every list; 'machine why' shows the rest.`,
		Example: `  holdfast machine issues
  holdfast machine issues --filter 'labels.site = "fra1"' -o wide
  holdfast machine issues --limit 1 -o name | xargs -r holdfast machine why`,
		Kind: issueKind(), Plural: "machines with issues", Filter: `labels.rack = "r7"`, Order: byUrgency,
		Page:  troubledPage,
		Empty: "no machine has an issue",
	})
}
