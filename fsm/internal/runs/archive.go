package runs

import (
	"iter"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ArchiveRun removes the steps and the log of an ended run. Its names, outcome and request id
// are kept permanently, because a request that is repeated years later must still find it. No
// event is recorded, because the run itself has not changed.
func ArchiveRun(t *core.Tx, c *internalv1.ArchiveRun) *refusal.Error {
	run, ok := t.Runs.Edit(c.GetRunId())
	switch {
	case !ok:
		return NotFound(c.GetRunId())
	case !lifecycle.Ended(run):
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,
			"run %s is %s: only runs that have ended are archived", run.GetRunId(), run.GetPhase())
	case run.GetArchive() != nil:
		return nil
	case run.GetRevision() != c.GetRevision():
		return refusal.New(refusal.Aborted, "RUN_CHANGED", "run %s has revision %d, the archived one is %d",
			run.GetRunId(), run.GetRevision(), c.GetRevision())
	case c.GetObject() == "" || len(c.GetSha256()) != 32 || c.GetSizeBytes() <= 0:
		return refusal.InvalidField("object",
			"an object of the archive has a name, a size and a SHA-256: got %q, %d bytes, a sum of %d bytes",
			c.GetObject(), c.GetSizeBytes(), len(c.GetSha256()))
	}
	for _, b := range logKeys(t, run.GetRunId()) {
		t.Logs.Delete(b)
	}
	run.Steps, run.Revision = nil, t.Index
	run.Archive = &holdfastv1.RunArchive{
		Object: c.GetObject(), SizeBytes: c.GetSizeBytes(), Sha256: c.GetSha256(), ArchivedAt: t.Now,
	}
	t.Runs.Put(run)
	return nil
}

// DropArchivedRun records that the archive no longer has the run.
func DropArchivedRun(t *core.Tx, c *internalv1.DropArchivedRun) *refusal.Error {
	run, ok := t.Runs.Edit(c.GetRunId())
	switch {
	case !ok:
		return NotFound(c.GetRunId())
	case run.GetArchive() == nil:
		return refusal.New(refusal.FailedPrecondition, "NOT_ARCHIVED",
			"run %s was not archived: its steps and log are here",
			run.GetRunId())
	case run.GetArchive().GetDroppedAt() != nil:
		return nil
	}
	if keep := time.Duration(c.GetKeepMs()) * time.Millisecond; keep > 0 {
		if age := t.Now.AsTime().Sub(run.GetFinishedAt().AsTime()); age < keep {
			return refusal.New(refusal.FailedPrecondition, "NOT_DUE",
				"run %s ended %v ago, and is kept for %v: check the leader's clock", run.GetRunId(), age, keep)
		}
		return nil
	}
	run.Archive.DroppedAt, run.Revision = t.Now, t.Index
	t.Runs.Put(run)
	return nil
}

// logKeys returns the keys of a run's log.
func logKeys(t *core.Tx, runID string) (keys []string) {
	for l := range t.Logs.Ascend(runID+"/", "") {
		keys = append(keys, schema.LogKey(runID, l.GetBlock().GetOffset()))
	}
	return keys
}

// WholeRuns returns the ended runs whose steps and log are not archived, oldest first.
func (v *View) WholeRuns() iter.Seq[*holdfastv1.Run] {
	return table.Values(v.s.Runs.Scan(schema.RunsUnarchived, "", ""))
}

// ArchivedRuns returns the runs whose steps and log are in the archive, oldest first.
func (v *View) ArchivedRuns() iter.Seq[*holdfastv1.Run] {
	return table.Values(v.s.Runs.Scan(schema.RunsArchived, "", ""))
}

// NewerRuns returns the number of newer runs of the same machine, up to limit.
func (v *View) NewerRuns(run *holdfastv1.Run, limit int) (n int) {
	for _, r := range v.MachineRuns(run.GetMachineId(), "") {
		if n >= limit || r.GetRunId() == run.GetRunId() {
			break
		}
		n++
	}
	return n
}
