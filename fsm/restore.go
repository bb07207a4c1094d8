package fsm

import (
	"bytes"
	"fmt"
	"sync"
	"weak"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// maxStagedChunk bounds a chunk of a snapshot file, in bytes. The command has to fit into
	// a Raft entry.
	maxStagedChunk = 256 << 10
	// maxStagedChunks bounds a snapshot file: 1 GiB.
	maxStagedChunks = 4096
)

// The reasons of runs that ended because of an operator's intervention in the cluster.
const (
	reasonRestored  = "Restored"  // a restore has ended them
	reasonRecovered = "Recovered" // their cluster was recovered
)

// clearStage discards the staged chunks. A new leader and each new restore do so.
func (t *tx) clearStage() {
	if t.staged.Len() > 0 {
		t.staged = table.New(schema.Staged())
	}
}

// stageBackup adds a chunk of a snapshot file.
func (t *tx) stageBackup(c *internalv1.StageBackup) *Error {
	switch {
	case !lex.ValidName(c.GetRestoreId(), 64):
		return invalid("restore_id", "is not 1 to 64 letters, digits, '.', '_', '-' or ':'")
	case len(c.GetData()) == 0 || len(c.GetData()) > maxStagedChunk:
		return invalid("data", "has %d bytes, 1 to %d are allowed", len(c.GetData()), maxStagedChunk)
	case c.GetSequence() >= maxStagedChunks:
		return invalid("sequence", "is %d: a file has at most %d chunks", c.GetSequence(), maxStagedChunks)
	}
	if c.GetSequence() == 0 {
		if first, ok := t.staged.Get(schema.Ordered(0)); !ok || first.GetRestoreId() != c.GetRestoreId() {
			t.clearStage()
		}
	}
	next := uint32(t.staged.Len())
	if first, ok := t.staged.Get(schema.Ordered(0)); ok && first.GetRestoreId() != c.GetRestoreId() ||
		c.GetSequence() > next {
		return refuse(Aborted, ReasonStageGone,
			"chunk %d of restore %s is out of order: "+
				"another restore started or the leadership changed; restart the upload",
			c.GetSequence(), c.GetRestoreId())
	}
	if c.GetSequence() < next {
		return nil // a duplicate
	}
	t.staged.Put(&internalv1.StagedChunk{RestoreId: c.GetRestoreId(), Sequence: c.GetSequence(), Data: c.GetData()})
	return nil
}

// readStage caches the file read from the stage while a caller holds it. A caller that checks
// a restore and keeps the result until it restores saves the leader a second read, which
// takes seconds for a large fleet.
type readStage struct {
	mu   sync.Mutex
	mark *table.Mark // of the stage
	file weak.Pointer[Backup]
}

// of returns the file of a stage: the cached one, or the result of read.
func (r *readStage) of(m *table.Mark, read func() (*Backup, error)) (*Backup, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.file.Value(); b != nil && r.mark == m {
		return b, nil
	}
	b, err := read()
	if err == nil {
		r.mark, r.file = m, weak.Make(b)
	}
	return b, err
}

func (s *state) stagedBackup(cache *readStage, restoreID string, chunks uint32) (*Backup, *Error) {
	var file bytes.Buffer
	n := uint32(0)
	for c := range s.staged.Ascend("", "") {
		if c.GetRestoreId() != restoreID {
			break
		}
		file.Write(c.GetData())
		n++
	}
	if n == 0 || n != chunks || int(n) != s.staged.Len() {
		return nil, refuse(Aborted, ReasonStageGone,
			"restore %s has %d of %d chunks staged: "+
				"another restore started or the leadership changed; restart the upload",
			restoreID, n, chunks)
	}
	b, err := cache.of(s.staged.Mark(), func() (*Backup, error) { return ReadBackup(&file) })
	if err != nil {
		return nil, refuse(InvalidArgument, "SNAPSHOT_DAMAGED", "%s", err)
	}
	return b, nil
}

// Staged returns the id of the staged restore, or an empty string.
func (v *View) Staged() string {
	first, _ := v.staged.Get(schema.Ordered(0))
	return first.GetRestoreId()
}

// StagedMark returns a value that changes whenever Staged may change. Comparing it is
// cheaper, because Staged has to decode a chunk.
func (v *View) StagedMark() any { return v.staged.Mark() }

// ReadStage reads the staged snapshot. While the caller keeps it, a restore need not read it
// again.
func (v *View) ReadStage(restoreID string, chunks uint32) (*Backup, *Error) {
	return v.stagedBackup(v.stage, restoreID, chunks)
}

// CheckRestore returns the staged snapshot, or the reason why it cannot be restored now.
// While the caller keeps it, a restore need not read it again.
func (v *View) CheckRestore(c *internalv1.RestoreBackup) (*Backup, *Error) { return v.restorable(v.stage, c) }

func (s *state) restorable(cache *readStage, c *internalv1.RestoreBackup) (*Backup, *Error) {
	b, err := s.stagedBackup(cache, c.GetRestoreId(), c.GetChunks())
	if err != nil {
		return nil, err
	}
	if l := b.state.meta.GetFeatureLevel(); l > s.meta.GetFeatureLevel() {
		return nil, refuse(FailedPrecondition, "SNAPSHOT_TOO_NEW",
			"the snapshot has feature level %d, the cluster %d: upgrade all peers first",
			l, s.meta.GetFeatureLevel())
	}
	if was, is := b.Header.GetClusterId(), s.meta.GetClusterId(); was != is && !c.GetOtherCluster() &&
		s.machines.Len()+s.runs.Len() > 0 {
		return nil, refuse(FailedPrecondition, ReasonOtherCluster,
			"the snapshot is of cluster %s, and this is %s with %d machines and %d runs of its own, "+
				"which would be lost: restore it into a new cluster, or confirm with --other-cluster",
			was, is, s.machines.Len(), s.runs.Len())
	}
	if active := s.activeRuns(); len(active) > 0 && !c.GetAbandonRuns() {
		return nil, refuse(FailedPrecondition, ReasonRunsActive,
			"a restore would abandon active runs (%d, such as %s on machine %s): "+
				"cancel them, wait, or pass --abandon-runs",
			len(active), active[0].GetRunId(), active[0].GetMachineId())
	}
	return b, nil
}

func (s *state) activeRuns() []*holdfastv1.Run {
	var runs []*holdfastv1.Run
	for _, r := range s.runs.Scan(schema.RunsActive, "", "") {
		runs = append(runs, r)
	}
	return runs
}

// restoreBackup replaces the state with the staged one, except for the parts that must not go
// back: see merged. Runs that were active when the snapshot was taken fail, because their
// progress since then is unknown. Their power actions are not repeated.
func (t *tx) restoreBackup(
	cache *readStage, c *internalv1.RestoreBackup,
) (*holdfastv1.RestoreSnapshotResponse, *Error) {
	b, err := t.restorable(cache, c)
	if err != nil {
		return nil, err
	}
	abandoned := t.activeRuns()
	at := b.Header.GetTakenAt().AsTime().UTC().Format("2006-01-02 15:04:05 MST")
	had := t.meta
	*t.state = *t.merged(b.state, b.Header.GetTakenAt())
	if now := t.meta.GetNow(); now.AsTime().After(t.now.AsTime()) {
		t.now = now
	}
	if had.GetLastAudit() > 0 &&
		(t.meta.GetLastAudit() != had.GetLastAudit() || string(t.meta.GetAuditHash()) != string(had.GetAuditHash())) {
		t.noteReplacedTrail(had)
	}
	out := &holdfastv1.RestoreSnapshotResponse{
		ClusterId:  b.Header.GetClusterId(),
		Index:      b.Header.GetIndex(),
		TakenAt:    b.Header.GetTakenAt(),
		TakenBy:    b.Header.GetPeer(),
		Machines:   uint64(t.machines.Len()),
		Runs:       uint64(t.runs.Len()),
		RestoredAt: t.index,
	}
	for _, run := range t.activeRuns() {
		why := fmt.Sprintf("it was active when the snapshot of %s was taken, which has been restored: "+
			"what became of it since is not on record; look at the machine before anything else",
			at)
		t.closeSteps(run, why)
		t.finishRun(run, holdfastv1.Run_FAILED,
			&holdfastv1.RunError{Reason: reasonRestored, Message: why, Step: run.GetCurrentStep()})
		out.EndedRuns = append(out.EndedRuns, run.GetRunId())
	}
	for _, run := range abandoned {
		out.AbandonedRuns = append(out.AbandonedRuns, run.GetRunId())
		t.abandoned(run, at)
	}
	return out, nil
}

// abandoned marks a machine for inspection: a run was active on it that the restored state
// does not know.
func (t *tx) abandoned(run *holdfastv1.Run, at string) {
	m, ok := t.machines.Get(run.GetMachineId())
	if !ok || run.GetBeside() || m.GetStatus().GetActiveRunId() != "" {
		return
	}
	switch m.GetStatus().GetPhase() {
	case holdfastv1.MachineStatus_RETIRED, holdfastv1.MachineStatus_MAINTENANCE, holdfastv1.MachineStatus_PROVISIONING:
	default:
		t.movePhase(m, holdfastv1.MachineStatus_MAINTENANCE, change{
			by: "restore", comment: "run " + run.GetRunId() + " was active when a snapshot was restored",
		})
	}
	t.observe(m, &holdfastv1.Condition{
		Type:   lifecycle.NeedsIntervention,
		Status: true,
		Reason: fmt.Sprintf("Restored: run %s (%s) was active when the snapshot of %s was restored",
			run.GetRunId(), run.GetType(), at),
	})
	t.putMachine(m)
}
