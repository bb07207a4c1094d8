package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// reportNode applies the report of an installer or a booted node: its facts, the time, and
// the consequences of its installation status.
func reportNode(t *core.Tx, c *internalv1.ReportNode) (*holdfastv1.Machine, *Error) {
	r := c.GetReport()
	mac, ok := lex.MAC(r.GetMacAddress())
	if !ok {
		return nil, invalid("mac_address", "%q is not a MAC address such as aa:bb:cc:dd:ee:ff", r.GetMacAddress())
	}
	if err := Invalid(fleet.CheckNode(r.GetFacts())); err != nil {
		return nil, err
	}
	if p := r.GetInstallationProgress(); p < 0 || p > 100 {
		return nil, invalid("installation_progress", "%d is not 0 to 100", p)
	}
	facts := make([]string, 0, len(fleet.FactPaths()))
	if in := r.GetFacts(); in != nil {
		texts := fleet.NodeText(in)
		for _, p := range fleet.FactPaths() {
			if *texts[p] != "" {
				facts = append(facts, p)
			}
		}
	}
	m, known := fleet.ByMAC(t.State, mac)
	if !known {
		if !c.GetDiscover() {
			return nil, refuse(NotFound, fleet.ReasonNodeNotFound, "Node with MAC %s not found", mac).With("node_id",
				mac)
		}
		if err := fleet.CheckDiscovery(t, mac, c.GetDiscoverLimit()); err != nil {
			return nil, err
		}
		if err := fleet.CheckNewNode(t, c.GetMachineId(), true); err != nil {
			return nil, err
		}
		m = fleet.Discover(t, c.GetMachineId(), mac, nil,
			fleet.Change{By: fleet.ByReport, Comment: "discovered by its report"})
	}
	if err := fleet.CheckSpeaker(t, m); err != nil {
		return nil, err
	}
	if beginsInstall(t, m, r) {
		if err := checkObservable(t, m, c.GetRunId()); err != nil {
			return nil, err
		}
	}
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	fleet.MergeNode(m.Node, r.GetFacts(), facts)
	m.Node.LastSeenAt = t.Now
	m = installReported(t, m, r, c.GetRunId())
	fleet.PutMachine(t, m)
	return fleet.Whole(t.State, m), nil
}

// beginsInstall reports whether a report begins a run.
func beginsInstall(t *core.Tx, m *holdfastv1.Machine, r *holdfastv1.ReportNodeRequest) bool {
	return r.GetInstallationStatus() == "started" && m.GetStatus().GetNodeState() == holdfastv1.Node_PENDING &&
		m.GetStatus().GetActiveRunId() == ""
}
