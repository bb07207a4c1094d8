package ui

import (
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
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
	Facts                       []fact
	MayRun, MayMove, MayApprove bool
}

func (d *dashboard) machine(v *visit) error {
	id := v.r.PathValue("id")
	m, err := v.read.machines.GetMachine(v.ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	b := machineBody{Machine: m, Facts: facts(m)}
	b.Why, err = v.read.machines.ExplainMachine(v.ctx, &holdfastv1.ExplainMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: equals("machine_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil {
		return err
	}
	if b.Runs = runs.GetRuns(); runs.GetNextPageToken() != "" {
		b.MoreRuns = link("/ui/runs", "filter", equals("machine_id", id))
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
		b.OlderHistory = link("/ui/machines/"+id, "history", h.GetNextPageToken()) + "#history"
	}
	b.MayRun = v.rules.may(v.who, "RunService/StartRun")
	b.MayMove = v.rules.may(v.who, "MachineService/SetMachinePhase")
	b.MayApprove = m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED &&
		v.rules.may(v.who, "NodeService/TransitionNode")
	return v.page("machine", id, "machines", b, nil)
}
