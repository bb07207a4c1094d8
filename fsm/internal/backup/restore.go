package backup

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/consoles"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Restorable returns the staged snapshot, or the reason why it cannot be restored now.
func Restorable(s *core.State, cache *Cache, c *internalv1.RestoreBackup) (*File, *refusal.Error) {
	b, err := Staged(s, cache, c.GetRestoreId(), c.GetChunks())
	if err != nil {
		return nil, err
	}
	if l := b.State.Meta.GetFeatureLevel(); l > s.Meta.GetFeatureLevel() {
		return nil, refusal.New(refusal.FailedPrecondition, "SNAPSHOT_TOO_NEW",
			"the snapshot has feature level %d, the cluster %d: upgrade all peers first",
			l, s.Meta.GetFeatureLevel())
	}
	if was, is := b.Header.GetClusterId(), s.Meta.GetClusterId(); was != is && !c.GetOtherCluster() &&
		s.Machines.Len()+s.Runs.Len() > 0 {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonOtherCluster,
			"the snapshot is of cluster %s, and this is %s with %s and %s of its own, "+
				"which would be lost: restore it into a new cluster, or confirm with --other-cluster",
			was, is, lex.Number(s.Machines.Len(), "machine"), lex.Number(s.Runs.Len(), "run"))
	}
	if active := runs.ActiveRuns(s); len(active) > 0 && !c.GetAbandonRuns() {
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonRunsActive,
			"a restore would abandon active runs (%d, such as %s on machine %s): "+
				"cancel them, wait, or pass --abandon-runs",
			len(active), active[0].GetRunId(), active[0].GetMachineId())
	}
	return b, nil
}

// Restore replaces the state with the staged one, except for the parts that must not go
// back: see merged. Runs that were active when the snapshot was taken fail, because their
// progress since then is unknown. Their power actions are not repeated.
func Restore(
	t *core.Tx, cache *Cache, c *internalv1.RestoreBackup,
) (*holdfastv1.RestoreSnapshotResponse, *refusal.Error) {
	b, err := Restorable(t.State, cache, c)
	if err != nil {
		return nil, err
	}
	abandoned := runs.ActiveRuns(t.State)
	at := b.Header.GetTakenAt().AsTime().UTC().Format("2006-01-02 15:04:05 MST")
	had := t.Meta
	*t.State = *merged(t, b.State, b.Header.GetTakenAt())
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
		run = proto.CloneOf(run)
		runs.CloseSteps(t, run, why)
		runs.FinishRun(t, run, holdfastv1.Run_FAILED,
			&holdfastv1.RunError{Reason: runs.ReasonRestored, Message: why, Step: run.GetCurrentStep()})
		out.EndedRuns = append(out.EndedRuns, run.GetRunId())
	}
	waves.Abandon(t, "a snapshot was restored")
	consoles.EndAll(t, consoles.Restored)
	for _, run := range abandoned {
		out.AbandonedRuns = append(out.AbandonedRuns, run.GetRunId())
		markAbandoned(t, run, at)
	}
	return out, nil
}

// markAbandoned marks a machine for inspection: a run was active on it that the restored state
// does not know.
func markAbandoned(t *core.Tx, run *holdfastv1.Run, at string) {
	m, ok := fleet.Edit(t, run.GetMachineId())
	if !ok || run.GetConcurrent() || m.GetStatus().GetActiveRunId() != "" {
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
