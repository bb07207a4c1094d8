package runs

import (
	"cmp"
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	// atExecutor is the stored text of a run that waits for the executor: in the queue, or between
	// two steps. It must never change, because peers of all builds store it.
	atExecutor = "the executor"
	// freeSlot is the text of a queued run that nothing else holds.
	freeSlot = "a free slot"
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
		return readable(run)
	}
	run = shallow.Run(run)
	plan, _ := s.Plans.Get(run.GetPlanId())
	held := heldBy(s, plan, run)
	if held == "" && run.GetDeadline() != nil { // its machine is being read: see NoteReading
		return run
	}
	position, newest := s.Runs.IsLast(schema.RunsPending, run.GetRunId())
	if !newest { // most are, when they start
		position = 1 + s.Runs.Count(schema.RunsPending, schema.OrderedTime(run.GetCreatedAt(), run.GetRunId()))
	}
	run.QueuePosition = int32(position)
	run.WaitingFor = cmp.Or(held, freeSlot)
	return run
}

// readable returns a run that names what it waits for, where the state has atExecutor.
func readable(run *holdfastv1.Run) *holdfastv1.Run {
	if run.GetWaitingFor() != atExecutor {
		return run
	}
	run = shallow.Run(run)
	run.WaitingFor = freeSlot
	if run.GetPhase() != holdfastv1.Run_PENDING {
		run.WaitingFor = "step " + run.GetCurrentStep() + " to begin"
	}
	return run
}

// Readable returns a state of a run, such as that of an event, with waiting_for as Run returns it.
// It has no position in the queue, which changes without an event.
func (v *View) Readable(run *holdfastv1.Run) *holdfastv1.Run {
	shown := readable(run)
	if shown == run || run.GetPhase() != holdfastv1.Run_PENDING {
		return shown
	}
	if now, ok := v.s.Runs.Get(run.GetRunId()); ok && now.GetPhase() == holdfastv1.Run_PENDING {
		plan, _ := v.s.Plans.Get(run.GetPlanId())
		shown.WaitingFor = cmp.Or(heldBy(v.s, plan, now), freeSlot)
	}
	return shown
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
