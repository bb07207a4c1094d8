package cli

import (
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
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
	}
}

func machineRow(m *holdfastv1.Machine, now time.Time, wide bool) []render.Text {
	spec, status := m.GetSpec(), m.GetStatus()
	row := []render.Text{
		plain(m.GetMachineId()),
		render.State(enum(status.GetEffectiveState())),
		plain(spec.GetPool()),
		render.State(enum(status.GetAgentState())),
		plain(agoIfAny(now, at(m.GetAgent().GetLastKeepalive()))),
		plain(status.GetActiveRunId()),
		plain(first(spec.GetProvider(), m.GetLabels()["provider"])),
		plain(spec.GetLocation()),
		plain(spec.GetRack()),
		plain(render.Ago(now, at(m.GetUpdatedAt()))),
	}
	if !wide {
		return row
	}
	return append(row,
		render.State(enum(status.GetPhase())),
		plain(enum(status.GetNodeState())),
		plain(m.GetAgent().GetAgentVersion()),
		plain(inUse(m.GetAgent().GetMetrics())),
		plain(conditions(status.GetConditions())),
		render.T(strings.Join(status.GetBanners(), "; "), render.Red),
		plain(spec.GetSshEndpoint()),
		plain(spec.GetBmcEndpoint()),
		plain(strings.Join(spec.GetMacAddresses(), ",")),
		plain(spec.GetSerial()),
		plain(spec.GetTargetClusterRef()),
		plain(spec.GetCustomerId()),
		joined(m.GetLabels()),
	)
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
	header, told := []string{"CONDITION", "STATUS", "REASON", "SINCE", "OBSERVED"}, false
	for _, c := range m.GetStatus().GetConditions() {
		told = told || c.GetMessage() != ""
	}
	if told {
		header = append(header, "MESSAGE")
	}
	t := render.NewTable(header...)
	for _, c := range m.GetStatus().GetConditions() {
		since := c.GetLastTransition()
		if c.GetUnknown() {
			since = c.GetUnknownSince()
		}
		row := []render.Text{plain(c.GetType()), conditionStatus(c), plain(c.GetReason()),
			plain(render.Ago(now, at(since))), plain(render.Ago(now, at(c.GetObservedAt())))}
		if told {
			row = append(row, plain(c.GetMessage()))
		}
		t.Row(row...)
	}
	return t
}

// conditionStatus returns the status of a condition: true, false or Unknown.
func conditionStatus(c *holdfastv1.Condition) render.Text {
	if c.GetUnknown() {
		return render.T("Unknown", render.Yellow)
	}
	return plain(truth(c.GetStatus()))
}

func truth(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// enum returns the name of a value; "" if it is unspecified.
func enum(v interface{ String() string }) string {
	if s := v.String(); !strings.HasSuffix(s, "_UNSPECIFIED") {
		return s
	}
	return ""
}
