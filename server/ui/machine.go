package ui

import (
	"slices"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// machineBody is the page of one machine.
type machineBody struct {
	Machine                     *holdfastv1.Machine
	Why                         *holdfastv1.MachineExplanation
	Active                      *holdfastv1.Run // nil if no run is active
	Runs                        []*holdfastv1.Run
	MoreRuns                    string
	History                     []*holdfastv1.HistoryEntry
	OlderHistory                string
	Facts                       []display.Fact
	Issues                      []string                 // those that Why does not mention
	Phased                      *holdfastv1.HistoryEntry // the last change of the phase; nil: not on this page
	MayRun, MayMove, MayApprove bool
	SetAside                    string // the plan that drains or uncordons its node; empty: none, or a run is active
}

func (d *dashboard) machine(v *visit) error {
	m, err := v.theMachine()
	if err != nil {
		return err
	}
	id, b := m.GetMachineId(), machineBody{Machine: m, Facts: display.Facts(m)}
	b.Why, err = v.read.machines.ExplainMachine(v.ctx, &holdfastv1.ExplainMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: filter.Equals("machine_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil {
		return err
	}
	if b.Runs = runs.GetRuns(); runs.GetNextPageToken() != "" {
		b.MoreRuns = display.Link("/ui/runs", "filter", filter.Equals("machine_id", id))
	}
	isActive := func(r *holdfastv1.Run) bool { return r.GetRunId() == m.GetStatus().GetActiveRunId() }
	if i := slices.IndexFunc(b.Runs, isActive); i >= 0 {
		b.Active = b.Runs[i]
	}
	h, err := v.read.machines.ListMachineHistory(v.ctx, &holdfastv1.ListMachineHistoryRequest{
		MachineId: id,
		PageSize:  50,
		PageToken: v.r.URL.Query().Get("history"),
	})
	if err != nil {
		return err
	}
	if b.History = h.GetEntries(); h.GetNextPageToken() != "" {
		b.OlderHistory = display.Link("/ui/machines/"+id, "history", h.GetNextPageToken()) + "#history"
	}
	b.Issues = display.Issues(m, b.Why)
	isPhase := func(e *holdfastv1.HistoryEntry) bool { return e.GetFacet() == "phase" }
	if i := slices.IndexFunc(b.History, isPhase); i >= 0 && v.r.URL.Query().Get("history") == "" {
		b.Phased = b.History[i]
	}
	b.MayRun = v.may("RunService/StartRun")
	if b.MayRun && m.GetStatus().GetActiveRunId() == "" {
		b.SetAside = setAside(m)
	}
	b.MayMove = v.may("MachineService/SetMachinePhase")
	b.MayApprove = m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED &&
		v.may("NodeService/TransitionNode")
	return v.page("machine", id, "machines", b, nil)
}

// setAside returns the plan that drains the node of a machine, or that ends its drain; empty if no
// cluster is known to have a node of it.
func setAside(m *holdfastv1.Machine) string {
	plan, inCluster := "plan/drain", false
	for _, c := range m.GetStatus().GetConditions() {
		inCluster = inCluster || c.GetType() == "InCustomerCluster" && c.GetStatus()
		if c.GetType() == "Drained" && c.GetStatus() {
			plan = "plan/uncordon"
		}
	}
	if !inCluster {
		return ""
	}
	return plan
}

// theMachine returns the machine of the path.
func (v *visit) theMachine() (*holdfastv1.Machine, error) {
	return v.read.machines.GetMachine(v.ctx, &holdfastv1.GetMachineRequest{MachineId: v.r.PathValue("id")})
}

// planConsole is the plan that keeps a serial console open.
const planConsole = "plan/console"

// consoleBody is the output of a machine's serial console: the latest run that kept it
// open, and earlier ones.
type consoleBody struct {
	Machine *holdfastv1.Machine
	Run     *holdfastv1.Run // nil if it was never open
	Log     logBody
	Before  []*holdfastv1.Run
	MayOpen bool
}

// console shows the console's output. Input is possible with the command line only.
func (d *dashboard) console(v *visit) error {
	m, err := v.theMachine()
	if err != nil {
		return err
	}
	b := consoleBody{Machine: m, MayOpen: v.may("RunService/StartRun")}
	consoles := filter.Equals("machine_id", m.GetMachineId()) + " AND " + filter.Equals("plan_id", planConsole)
	runs, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{Filter: consoles, PageSize: 20})
	if err != nil {
		return err
	}
	if all := runs.GetRuns(); len(all) > 0 {
		b.Run, b.Before = all[0], all[1:]
		b.MayOpen = b.MayOpen && display.Ended(b.Run)
		if b.Log, err = d.theLog(v, b.Run, "console"); err != nil {
			return err
		}
	}
	return v.page("console", "Console of "+m.GetMachineId(), "machines", b, nil)
}
