package installs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ReportNode applies the report of an installer or a booted node: its facts, the time, and
// the consequences of its installation status. A report that contradicts the machine's record is
// refused, and leaves a condition.
func ReportNode(t *core.Tx, c *internalv1.ReportNode) (*holdfastv1.Machine, *refusal.Error) {
	r := c.GetReport()
	mac, problem := lex.ParseMAC(r.GetMacAddress())
	if problem != "" {
		return nil, refusal.InvalidField("mac_address", "%s", problem)
	}
	if err := refusal.Invalid(fleet.CheckNode(r.GetFacts())); err != nil {
		return nil, err
	}
	if p := r.GetInstallationProgress(); p < 0 || p > 100 {
		return nil, refusal.InvalidField("installation_progress", "%d is not 0 to 100", p)
	}
	m, known := fleet.ByMAC(t.State, mac)
	if !known {
		if !c.GetDiscover() {
			return nil, fleet.NoNodeWithMAC(mac)
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
	if err := fleet.RefusePoolToken(t, m); err != nil {
		return nil, err
	}
	if err := fleet.CheckReporter(t, m, mac, r.GetFacts()); err != nil {
		return nil, err
	}
	if beginsInstall(t, m, r) {
		if err := checkObservable(t, m, c.GetRunId()); err != nil {
			return nil, err
		}
	}
	m, _ = t.Machines.Edit(m.GetMachineId())
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	fleet.MergeFacts(m.Node, r.GetFacts())
	fleet.NoteBoard(t, m)
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

// installReported applies an installation status to the node, according to the table of the
// node state machine (docs/concepts.md). A status without an entry for the node's state
// changes nothing. If the executor drives the run, the report is evidence for its step, which
// decides.
func installReported(
	t *core.Tx, m *holdfastv1.Machine, r *holdfastv1.ReportNodeRequest, runID string,
) *holdfastv1.Machine {
	n, status := m.GetNode(), r.GetInstallationStatus()
	if !sessionReported(t, m, r) {
		return m
	}
	run, _ := t.Runs.Get(m.GetStatus().GetActiveRunId())
	if status == "started" && m.GetStatus().GetNodeState() == holdfastv1.Node_PENDING && run == nil {
		return beginObserved(t, m, runID, "the installer has started")
	}
	if m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLING ||
		!slices.Contains([]string{"started", "progress", "complete", "failed"}, status) {
		return m
	}
	observed := run.GetObserved()
	if observed {
		run = shallow.Run(run)
		renewInstall(t, run)
		t.Runs.Put(run) // no event: the run itself is unchanged
		run, _ = t.Runs.Edit(run.GetRunId())
	}
	if !observed || status != "started" { // a repeated start has no entry in the table
		noteInstall(t, m, status, run.GetRunId())
	}
	if r.GetHasProgress() && status == "progress" {
		n.InstallProgress = r.GetInstallationProgress()
	}
	switch why := cmp.Or(lex.Clip(r.GetInstallationError(), core.MaxNote), "the installer gave no reason"); {
	case status == "failed":
		n.InstallAttempts++
		n.LastInstallError = why
		if observed {
			return observedRetry(t, m, run, why)
		}
	case status == "complete" && observed:
		return observedDone(t, m, run, "the installer is done")
	case status == "complete":
		n.InstallAttempts, n.LastInstallError, n.InstallProgress = 0, "", 100
	case status == "progress" && observed && r.GetHasProgress():
		observedProgress(t, run, fmt.Sprintf("install: %d %%", r.GetInstallationProgress()))
	}
	return m
}
