package kinds

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Machine returns the kind of machines.
func Machine() output.Kind[*holdfastv1.Machine] {
	return output.Kind[*holdfastv1.Machine]{
		Noun: "machine", List: "machines",
		Name: (*holdfastv1.Machine).GetMachineId,
		Header: slices.Concat([]string{"MACHINE", "STATE", "POWER", "POOL", "AGENT", "RUN"}, headers(true),
			[]string{"UPDATED", "WHY"}),
		Wide: slices.Concat([]string{"PHASE", "NODE", "HARDWARE", "KEEPALIVE", "AGENT VERSION", "IN USE", "CONDITIONS",
			"BANNERS"}, headers(false), []string{"LABELS"}),
		Row: machineRow,
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Machine, string, error) {
			r, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: q.Filter, PageSize: q.Size,
				PageToken: q.Token})
			return r.GetMachines(), r.GetNextPageToken(), err
		},
		Get: GetMachine,
	}
}

func machineRow(m *holdfastv1.Machine, now time.Time) []any {
	status := m.GetStatus()
	return slices.Concat([]any{
		m.GetMachineId(), render.State(describe.Enum(status.GetEffectiveState())), PowerText(status), m.GetSpec().GetPool(),
		render.State(describe.Enum(status.GetAgentState())), status.GetActiveRunId(),
	}, declared(m, true), []any{
		app.Age(now, m.GetUpdatedAt()), describe.Attention(m, now),
		render.State(describe.Enum(status.GetPhase())), describe.Enum(status.GetNodeState()),
		describe.Hardware(m.GetHardwareSummary()),
		app.Age(now, m.GetAgent().GetLastKeepalive()), m.GetAgent().GetAgentVersion(),
		describe.InUse(m.GetAgent().GetMetrics()), conditions(status.GetConditions()),
		render.T(strings.Join(status.GetBanners(), "; "), render.Red),
	}, declared(m, false), []any{app.Joined(m.GetLabels())})
}

// columns returns the declared fields that are usual columns, or those that are wide ones. The pool
// is not one of them: it stands next to the agent, whose heartbeats name it.
func columns(usual bool) (all []machinefield.Field) {
	for f := range machinefield.All() {
		if f.GetColumn() != "" && f.GetUsual() == usual && f.Name() != "pool" {
			all = append(all, f)
		}
	}
	return all
}

func headers(usual bool) (all []string) {
	for _, f := range columns(usual) {
		all = append(all, strings.ToUpper(f.GetColumn()))
	}
	return all
}

func declared(m *holdfastv1.Machine, usual bool) (all []any) {
	for _, f := range columns(usual) {
		all = append(all, describe.Declared(m, f))
	}
	return all
}

// PowerText returns the power of a machine, in red if it should be on.
func PowerText(s *holdfastv1.MachineStatus) render.Text {
	down := slices.ContainsFunc(s.GetIssues(), func(i *holdfastv1.Issue) bool { return i.GetType() == "PoweredOff" })
	if down {
		return render.T(describe.Power(s), render.Red)
	}
	return app.Plain(describe.Power(s))
}

// conditions formats the conditions on one line, with a reason only for unusual ones.
func conditions(all []*holdfastv1.Condition) string {
	parts := make([]string, len(all))
	for i, c := range all {
		bad := slices.Contains([]string{"Degraded", "NeedsIntervention", "IdentityConflict"}, c.GetType())
		parts[i] = c.GetType() + "=" + ConditionStatus(c).Value
		if (c.GetUnknown() || c.GetStatus() == bad) && c.GetReason() != "" {
			parts[i] += "(" + c.GetReason() + ")"
		}
	}
	return strings.Join(parts, ",")
}

// ConditionTable returns the conditions of a machine as a table.
func ConditionTable(m *holdfastv1.Machine, now time.Time) *render.Table {
	header := []string{"CONDITION", "STATUS", "REASON", "SINCE", "OBSERVED"}
	if slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool {
		return c.GetMessage() != ""
	}) {
		header = append(header, "MESSAGE")
	}
	t := render.NewTable(header...)
	for _, c := range m.GetStatus().GetConditions() {
		status := ConditionStatus(c)
		if describe.ConditionMeaning(m.GetStatus(), c) == describe.Bad {
			status = render.T(status.Value, render.Red)
		}
		since := c.GetLastTransition()
		if c.GetUnknown() {
			since = c.GetUnknownSince()
		}
		t.Row(c.GetType(), status, c.GetReason(), app.Age(now, since), app.Age(now, c.GetObservedAt()),
			c.GetMessage())
	}
	return t
}

// ConditionStatus returns the status of a condition: true, false or Unknown.
func ConditionStatus(c *holdfastv1.Condition) render.Text {
	if c.GetUnknown() {
		return render.T("Unknown", render.Yellow)
	}
	return app.Plain(strconv.FormatBool(c.GetStatus()))
}

// ListMachines returns the machines that the flags of a list select.
func ListMachines(ctx context.Context, c *client.Client, l *output.Listing) ([]*holdfastv1.Machine, error) {
	items, err := Machine().All(ctx, c, l.Filter, l.Limit)
	return items, app.Failed(err, "list machines")
}

// GetMachine returns a machine by its id.
func GetMachine(ctx context.Context, c *client.Client, id string) (*holdfastv1.Machine, error) {
	m, err := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	return m, app.Failed(err, "get machine %s", id)
}

// History returns the kind of the entries of the history of a machine.
func History() output.Kind[*holdfastv1.HistoryEntry] {
	return output.Kind[*holdfastv1.HistoryEntry]{
		List:   "entries",
		Name:   func(e *holdfastv1.HistoryEntry) string { return app.Stamp(e.GetAt()) },
		Header: []string{"AT", "FACET", "FROM", "TO", "BY", "RUN", "COMMENT"},
		Wide:   []string{"SEQUENCE", "PRINCIPAL", "METADATA"},
		Row: func(e *holdfastv1.HistoryEntry, _ time.Time) []any {
			return []any{
				app.Stamp(e.GetAt()), e.GetFacet(), render.State(e.GetFrom()), render.State(e.GetTo()),
				e.GetTriggeredBy(), e.GetRunId(), e.GetComment(),
				app.Number(e.GetSequence()), e.GetPrincipal(), app.Joined(e.GetMetadata()),
			}
		},
	}
}

// Significant returns a machine without observation times and keepalive metrics.
func Significant(m *holdfastv1.Machine) *holdfastv1.Machine {
	m = proto.CloneOf(m)
	m.Revision, m.UpdatedAt = 0, nil
	if m.GetAgent() != nil {
		m.Agent.LastKeepalive, m.Agent.Metrics = nil, nil
	}
	for _, c := range m.GetStatus().GetConditions() {
		c.ObservedAt, c.FreshUntil = nil, nil
	}
	if m.GetStatus() != nil {
		m.Status.PowerObservedAt = nil
	}
	return m
}
