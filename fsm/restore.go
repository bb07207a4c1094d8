package fsm

import (
	"bytes"
	"fmt"
	"sync"
	"weak"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
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

// clearStage discards the staged chunks. A new leader and each new restore do so.
func clearStage(t *core.Tx) {
	if t.Staged.Len() > 0 {
		t.Staged = table.New(schema.Staged())
	}
}

// stageBackup adds a chunk of a snapshot file.
func stageBackup(t *core.Tx, c *internalv1.StageBackup) *Error {
	switch {
	case !lex.ValidName(c.GetRestoreId(), 64):
		return invalid("restore_id", "is not 1 to 64 letters, digits, '.', '_', '-' or ':'")
	case len(c.GetData()) == 0 || len(c.GetData()) > maxStagedChunk:
		return invalid("data", "has %d bytes, 1 to %d are allowed", len(c.GetData()), maxStagedChunk)
	case c.GetSequence() >= maxStagedChunks:
		return invalid("sequence", "is %d: a file has at most %d chunks", c.GetSequence(), maxStagedChunks)
	}
	if c.GetSequence() == 0 {
		if first, ok := t.Staged.Get(schema.Ordered(0)); !ok || first.GetRestoreId() != c.GetRestoreId() {
			clearStage(t)
		}
	}
	next := uint32(t.Staged.Len())
	if first, ok := t.Staged.Get(schema.Ordered(0)); ok && first.GetRestoreId() != c.GetRestoreId() ||
		c.GetSequence() > next {
		return refuse(Aborted, ReasonStageGone,
			"chunk %d of restore %s is out of order: "+
				"another restore started or the leadership changed; restart the upload",
			c.GetSequence(), c.GetRestoreId())
	}
	if c.GetSequence() < next {
		return nil // a duplicate
	}
	t.Staged.Put(&internalv1.StagedChunk{RestoreId: c.GetRestoreId(), Sequence: c.GetSequence(), Data: c.GetData()})
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

func stagedBackup(s *core.State, cache *readStage, restoreID string, chunks uint32) (*Backup, *Error) {
	var file bytes.Buffer
	n := uint32(0)
	for c := range s.Staged.Ascend("", "") {
		if c.GetRestoreId() != restoreID {
			break
		}
		file.Write(c.GetData())
		n++
	}
	if n == 0 || n != chunks || int(n) != s.Staged.Len() {
		return nil, refuse(Aborted, ReasonStageGone,
			"restore %s has %d of %d chunks staged: "+
				"another restore started or the leadership changed; restart the upload",
			restoreID, n, chunks)
	}
	b, err := cache.of(s.Staged.Mark(), func() (*Backup, error) { return ReadBackup(&file) })
	if err != nil {
		return nil, refuse(InvalidArgument, "SNAPSHOT_DAMAGED", "%s", err)
	}
	return b, nil
}

// Staged returns the id of the staged restore, or an empty string.
func (v *View) Staged() string {
	first, _ := v.state.Staged.Get(schema.Ordered(0))
	return first.GetRestoreId()
}

// StagedMark returns a value that changes whenever Staged may change. Comparing it is
// cheaper, because Staged has to decode a chunk.
func (v *View) StagedMark() any { return v.state.Staged.Mark() }

func restorable(s *core.State, cache *readStage, c *internalv1.RestoreBackup) (*Backup, *Error) {
	b, err := stagedBackup(s, cache, c.GetRestoreId(), c.GetChunks())
	if err != nil {
		return nil, err
	}
	if l := b.state.Meta.GetFeatureLevel(); l > s.Meta.GetFeatureLevel() {
		return nil, refuse(FailedPrecondition, "SNAPSHOT_TOO_NEW",
			"the snapshot has feature level %d, the cluster %d: upgrade all peers first",
			l, s.Meta.GetFeatureLevel())
	}
	if was, is := b.Header.GetClusterId(), s.Meta.GetClusterId(); was != is && !c.GetOtherCluster() &&
		s.Machines.Len()+s.Runs.Len() > 0 {
		return nil, refuse(FailedPrecondition, ReasonOtherCluster,
			"the snapshot is of cluster %s, and this is %s with %d machines and %d runs of its own, "+
				"which would be lost: restore it into a new cluster, or confirm with --other-cluster",
			was, is, s.Machines.Len(), s.Runs.Len())
	}
	if active := runs.ActiveRuns(s); len(active) > 0 && !c.GetAbandonRuns() {
		return nil, refuse(FailedPrecondition, ReasonRunsActive,
			"a restore would abandon active runs (%d, such as %s on machine %s): "+
				"cancel them, wait, or pass --abandon-runs",
			len(active), active[0].GetRunId(), active[0].GetMachineId())
	}
	return b, nil
}

// restoreBackup replaces the state with the staged one, except for the parts that must not go
// back: see merged. Runs that were active when the snapshot was taken fail, because their
// progress since then is unknown. Their power actions are not repeated.
func restoreBackup(
	t *core.Tx, cache *readStage, c *internalv1.RestoreBackup,
) (*holdfastv1.RestoreSnapshotResponse, *Error) {
	b, err := restorable(t.State, cache, c)
	if err != nil {
		return nil, err
	}
	abandoned := runs.ActiveRuns(t.State)
	at := b.Header.GetTakenAt().AsTime().UTC().Format("2006-01-02 15:04:05 MST")
	had := t.Meta
	*t.State = *merged(t, b.state, b.Header.GetTakenAt())
	if now := t.Meta.GetNow(); now.AsTime().After(t.Now.AsTime()) {
		t.Now = now
	}
	if had.GetLastAudit() > 0 &&
		(t.Meta.GetLastAudit() != had.GetLastAudit() || string(t.Meta.GetAuditHash()) != string(had.GetAuditHash())) {
		noteReplacedTrail(t, had)
	}
	out := &holdfastv1.RestoreSnapshotResponse{
		ClusterId:  b.Header.GetClusterId(),
		Index:      b.Header.GetIndex(),
		TakenAt:    b.Header.GetTakenAt(),
		TakenBy:    b.Header.GetPeer(),
		Machines:   uint64(t.Machines.Len()),
		Runs:       uint64(t.Runs.Len()),
		RestoredAt: t.Index,
	}
	for _, run := range runs.ActiveRuns(t.State) {
		why := fmt.Sprintf("it was active when the snapshot of %s was taken, which has been restored: "+
			"what became of it since is not on record; look at the machine before anything else",
			at)
		runs.CloseSteps(t, run, why)
		runs.FinishRun(t, run, holdfastv1.Run_FAILED,
			&holdfastv1.RunError{Reason: runs.ReasonRestored, Message: why, Step: run.GetCurrentStep()})
		out.EndedRuns = append(out.EndedRuns, run.GetRunId())
	}
	for _, run := range abandoned {
		out.AbandonedRuns = append(out.AbandonedRuns, run.GetRunId())
		markAbandoned(t, run, at)
	}
	return out, nil
}

// markAbandoned marks a machine for inspection: a run was active on it that the restored state
// does not know.
func markAbandoned(t *core.Tx, run *holdfastv1.Run, at string) {
	m, ok := t.Machines.Get(run.GetMachineId())
	if !ok || run.GetBeside() || m.GetStatus().GetActiveRunId() != "" {
		return
	}
	switch m.GetStatus().GetPhase() {
	case holdfastv1.MachineStatus_RETIRED, holdfastv1.MachineStatus_MAINTENANCE, holdfastv1.MachineStatus_PROVISIONING:
	default:
		fleet.MovePhase(t, m, holdfastv1.MachineStatus_MAINTENANCE, fleet.Change{
			By: "restore", Comment: "run " + run.GetRunId() + " was active when a snapshot was restored",
		})
	}
	fleet.Observe(t, m, &holdfastv1.Condition{
		Type:   lifecycle.NeedsIntervention,
		Status: true,
		Reason: fmt.Sprintf("Restored: run %s (%s) was active when the snapshot of %s was restored",
			run.GetRunId(), run.GetType(), at),
	})
	fleet.PutMachine(t, m)
}
