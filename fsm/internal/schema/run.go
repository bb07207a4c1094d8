package schema

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// HistoryDeleted is the index of history entries that record the deletion of a machine, by time.
const HistoryDeleted = 0

// MachineDeleted is the new value in such an entry.
const MachineDeleted = "deleted"

// History returns the schema of history entries.
func History() *table.Schema[*holdfastv1.HistoryEntry] {
	return &table.Schema[*holdfastv1.HistoryEntry]{
		Kind: internalv1.SnapshotRecord_HISTORY,
		Key:  func(e *holdfastv1.HistoryEntry) string { return HistoryKey(e.GetMachineId(), e.GetSequence()) },

		Indexes: 1,
		Index: func(e *holdfastv1.HistoryEntry, add func(int, string)) {
			if e.GetFacet() == "inventory" && e.GetTo() == MachineDeleted {
				add(HistoryDeleted, OrderedTime(e.GetAt(), e.GetMachineId()))
			}
		},
		Fields: []string{"machine_id", "sequence", "facet", "to", "at"},
	}
}

// HistoryKey sorts by machine, then by sequence. A machine id has no slash.
func HistoryKey(machineID string, seq uint64) string {
	key := make([]byte, 0, 96) // enough for most ids; stays on the stack
	return string(appendOrdered(append(append(key, machineID...), '/'), seq))
}

// Cohort identifies the runs that share a ramp. A defect of one of them probably affects all.
// Pools have cohorts of their own, so that no tenant slows another down.
type Cohort struct{ Plan, Image, Pool string }

// CohortOf returns the cohort of a run.
func CohortOf(r *holdfastv1.Run) Cohort {
	return Cohort{Plan: r.GetPlanId(), Image: r.GetParams()["image"], Pool: r.GetPool()}
}

// Key is unambiguous, because a plan id has no NUL.
func (c Cohort) Key() string { return c.FleetKey() + c.Pool + "\x00" }

// FleetKey begins the keys of the cohorts with the same plan and image in all pools.
func (c Cohort) FleetKey() string { return c.Plan + "\x00" + c.Image + "\x00" }

// The indexes of runs.
const (
	RunsByRequest   = iota // machine/request: the run of a request id, kept permanently
	RunsByTime             // all
	RunsByMachine          // machine/time
	RunsActive             // PENDING and RUNNING, by time
	RunsPending            // PENDING, by time
	RunsUncompacted        // ended, with an uncompressed log
	RunsConcurrent         // concurrent with the machine's exclusive run, by machine
	RunsUnarchived         // ended, with unarchived steps and log, by time
	RunsArchived           // archived, by time
	RunsRunning            // RUNNING and driven by the executor, by plan, image and pool
	RunsByImage            // active, by Run.image; see the field
	RunsByPlan             // active, by plan
	runIndexes             // the number of indexes
)

// Runs returns the schema of runs.
func Runs() *table.Schema[*holdfastv1.Run] {
	return &table.Schema[*holdfastv1.Run]{
		Kind:    internalv1.SnapshotRecord_RUNS,
		Key:     (*holdfastv1.Run).GetRunId,
		Indexes: runIndexes,
		Index:   indexRun,

		SameKeys: func(old, r *holdfastv1.Run) bool {
			return old.GetPhase() == r.GetPhase() && old.GetCreatedAt() == r.GetCreatedAt() &&
				old.GetRequestId() == r.GetRequestId() && old.GetMachineId() == r.GetMachineId() &&
				old.GetObserved() == r.GetObserved() && old.GetConcurrent() == r.GetConcurrent() &&
				old.GetArchive() == r.GetArchive() && old.GetLogBytes() == r.GetLogBytes() &&
				old.GetLogCompacted() == r.GetLogCompacted() && CohortOf(old) == CohortOf(r) &&
				old.GetImage() == r.GetImage()
		},
	}
}

func indexRun(r *holdfastv1.Run, add func(index int, key string)) {
	created, ended := OrderedTime(r.GetCreatedAt(), r.GetRunId()), lifecycle.Ended(r)
	add(RunsByRequest, RequestKey(r.GetMachineId(), r.GetRequestId()))
	add(RunsByTime, created)
	add(RunsByMachine, r.GetMachineId()+"/"+created)
	if r.GetPhase() == holdfastv1.Run_PENDING {
		add(RunsPending, created)
	}
	if r.GetPhase() == holdfastv1.Run_RUNNING && !r.GetObserved() {
		add(RunsRunning, CohortOf(r).Key())
	}
	switch {
	case !ended:
		add(RunsActive, created)
		add(RunsByPlan, NameKey(r.GetPlanId()))
		if r.GetImage() != "" {
			add(RunsByImage, NameKey(r.GetImage()))
		}
		if r.GetConcurrent() {
			add(RunsConcurrent, r.GetMachineId())
		}
	case r.GetArchive() == nil:
		add(RunsUnarchived, created)
		if r.GetLogBytes() > 0 && !r.GetLogCompacted() {
			add(RunsUncompacted, created)
		}
	}
	if r.GetArchive() != nil && r.GetArchive().GetDroppedAt() == nil {
		add(RunsArchived, created)
	}
}

// NameKey is the key of the rows with a name in an index, such as that of a plan or an image. No
// name has a NUL.
func NameKey(name string) string { return name + "\x00" }

// RequestKey is unambiguous, because the id of a registered machine has no slash.
func RequestKey(machineID, requestID string) string { return machineID + "/" + requestID }

// RunLogs returns the schema of the blocks of run logs.
func RunLogs() *table.Schema[*internalv1.StoredLog] {
	return &table.Schema[*internalv1.StoredLog]{
		Kind: internalv1.SnapshotRecord_RUN_LOGS,
		Key:  func(l *internalv1.StoredLog) string { return LogKey(l.GetRunId(), l.GetBlock().GetOffset()) },
	}
}

// LogKey returns the key of the block of a run's log that begins at an offset.
func LogKey(runID string, offset int64) string { return runID + "/" + Ordered(uint64(offset)) }
