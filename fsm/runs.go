package fsm

import (
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Cohort identifies the runs that share a ramp. A defect of one of them probably affects all.
type Cohort = schema.Cohort

// CohortOf returns the cohort of a run.
func CohortOf(r *holdfastv1.Run) Cohort { return schema.CohortOf(r) }

// Ended reports whether a run is terminal.
func Ended(r *holdfastv1.Run) bool { return lifecycle.Ended(r) }

// Open reports whether an attempt has begun and not ended.
func Open(a *holdfastv1.Attempt) bool { return lifecycle.Open(a) }

// MaxRunLog bounds a run's log, in bytes. A log that reaches it ends with a chunk that
// reports the truncation.
const MaxRunLog = runlog.Max

// ReadLog returns the log in blocks of a run, as RunLog does.
func ReadLog(runID string, blocks iter.Seq[*internalv1.LogBlock], offset int64) iter.Seq[*holdfastv1.LogChunk] {
	return runlog.Read(runID, blocks, offset)
}
