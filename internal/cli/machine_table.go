package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineKind() kind[*holdfastv1.Machine] {
	return kind[*holdfastv1.Machine]{
		noun: "machine", list: "machines",
		name: (*holdfastv1.Machine).GetMachineId,
		header: []string{"MACHINE", "STATE", "POOL", "AGENT", "KEEPALIVE", "RUN", "PROVIDER", "LOCATION", "RACK",
			"UPDATED"},
		wide: []string{"PHASE", "NODE", "AGENT VERSION", "IN USE", "CONDITIONS", "BANNERS", "SSH", "BMC", "MACS",
			"SERIAL",
			"CLUSTER", "CUSTOMER", "LABELS"},
		row: machineRow,
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Machine, string, error) {
			r, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: q.filter, PageSize: q.size,
				PageToken: q.token})
			return r.GetMachines(), r.GetNextPageToken(), err
		},
	}
}

func machineRow(m *holdfastv1.Machine, now time.Time) []any {
	spec, status := m.GetSpec(), m.GetStatus()
	return []any{
		m.GetMachineId(), render.State(describe.Enum(status.GetEffectiveState())), spec.GetPool(),
		render.State(describe.Enum(status.GetAgentState())), age(now, m.GetAgent().GetLastKeepalive()),
		status.GetActiveRunId(), cmp.Or(spec.GetProvider(), m.GetLabels()["provider"]), spec.GetLocation(),
		spec.GetRack(), age(now, m.GetUpdatedAt()),
		render.State(describe.Enum(status.GetPhase())), describe.Enum(status.GetNodeState()), m.GetAgent().GetAgentVersion(),
		describe.InUse(m.GetAgent().GetMetrics()), conditions(status.GetConditions()),
		render.T(strings.Join(status.GetBanners(), "; "), render.Red), spec.GetSshEndpoint(), spec.GetBmcEndpoint(),
		strings.Join(spec.GetMacAddresses(), ","), spec.GetSerial(), spec.GetTargetClusterRef(),
		spec.GetCustomerId(), joined(m.GetLabels()),
	}
}

// conditions formats the conditions on one line, with a reason only for unusual ones.
func conditions(all []*holdfastv1.Condition) string {
	parts := make([]string, len(all))
	for i, c := range all {
		bad := c.GetType() == "Degraded" || c.GetType() == "NeedsIntervention"
		parts[i] = c.GetType() + "=" + conditionStatus(c).Value
		if (c.GetUnknown() || c.GetStatus() == bad) && c.GetReason() != "" {
			parts[i] += "(" + c.GetReason() + ")"
		}
	}
	return strings.Join(parts, ",")
}

func conditionTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	header := []string{"CONDITION", "STATUS", "REASON", "SINCE", "OBSERVED"}
	if slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool {
		return c.GetMessage() != ""
	}) {
		header = append(header, "MESSAGE")
	}
	t := render.NewTable(header...)
	for _, c := range m.GetStatus().GetConditions() {
		since := c.GetLastTransition()
		if c.GetUnknown() {
			since = c.GetUnknownSince()
		}
		t.Row(c.GetType(), conditionStatus(c), c.GetReason(), age(now, since), age(now, c.GetObservedAt()),
			c.GetMessage())
	}
	return t
}

// conditionStatus returns the status of a condition: true, false or Unknown.
func conditionStatus(c *holdfastv1.Condition) render.Text {
	if c.GetUnknown() {
		return render.T("Unknown", render.Yellow)
	}
	return plain(strconv.FormatBool(c.GetStatus()))
}
