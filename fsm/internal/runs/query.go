package runs

import (
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ByRequest returns the run of a request id.
func ByRequest(s *core.State, machineID, requestID string) (*holdfastv1.Run, bool) {
	run, ok := s.Runs.Lookup(schema.RunsByRequest, schema.RequestKey(machineID, requestID))
	// An id with a slash may match the key of another machine.
	if !ok || run.GetMachineId() != machineID {
		return nil, false
	}
	return run, true
}

// withQueue returns a run with the fields that are computed on read.
func withQueue(s *core.State, run *holdfastv1.Run) *holdfastv1.Run {
	if run.GetPhase() != holdfastv1.Run_PENDING {
		return run
	}
	held := withHold(s, run, run)
	if held == run && run.GetWait().GetKind() == holdfastv1.Wait_READING {
		return run // it has left the queue
	}
	position, newest := s.Runs.IsLast(schema.RunsPending, run.GetRunId())
	if !newest { // most are, when they start
		position = 1 + s.Runs.Count(schema.RunsPending, schema.OrderedTime(run.GetCreatedAt(), run.GetRunId()))
	}
	if held == run {
		held = shallow.Run(run)
	}
	held.QueuePosition = int32(position)
	return held
}

// Run returns a run with its position in the queue.
func (v *View) Run(id string) (*holdfastv1.Run, bool) {
	run, ok := v.s.Runs.Get(id)
	if !ok {
		return nil, false
	}
	return withQueue(v.s, run), true
}

// RunByRequest returns the run of a request id.
func (v *View) RunByRequest(machineID, requestID string) (*holdfastv1.Run, bool) {
	return ByRequest(v.s, machineID, requestID)
}

// Runs returns all runs, newest first, each with its key for the next page. If before is
// empty, it starts at the newest. Queue positions are omitted: see Run.
func (v *View) Runs(before string) iter.Seq2[string, *holdfastv1.Run] {
	return v.s.Runs.ScanBack(schema.RunsByTime, "", before)
}

// RunsByAge returns all runs, oldest first, without queue positions.
func (v *View) RunsByAge() iter.Seq[*holdfastv1.Run] {
	return table.Values(v.s.Runs.Scan(schema.RunsByTime, "", ""))
}

// MachineRuns returns the runs of one machine as Runs does.
func (v *View) MachineRuns(machineID, before string) iter.Seq2[string, *holdfastv1.Run] {
	return v.s.Runs.ScanBack(schema.RunsByMachine, machineID+"/", before)
}

// ActiveRuns returns the runs that have not ended, oldest first.
func (v *View) ActiveRuns() iter.Seq[*holdfastv1.Run] {
	return table.Values(v.s.Runs.Scan(schema.RunsActive, "", ""))
}

// UncompactedRuns returns the ended runs whose log is not compressed yet, oldest first.
func (v *View) UncompactedRuns() iter.Seq[*holdfastv1.Run] {
	return table.Values(v.s.Runs.Scan(schema.RunsUncompacted, "", ""))
}

// RunsWithPrefix returns the runs whose id begins with a text, by id.
func (v *View) RunsWithPrefix(text string) iter.Seq[*holdfastv1.Run] {
	return v.s.Runs.Ascend(text, "")
}
