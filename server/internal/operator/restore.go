package operator

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

const (
	// quiet is the pause before a restore, in which no request is sent to hardware, so
	// that none is in flight during the restore (decision 0004: V + D, and a margin).
	quiet = 1100 * time.Millisecond
	// restoreTimeout is the time limit of a restore after the whole file has been read.
	restoreTimeout = 2 * time.Minute
	// RestoreCallTimeout is the time limit of a call of RestoreSnapshot without a deadline. The
	// call has to read a whole snapshot.
	RestoreCallTimeout = 30 * time.Minute
)

// StageSnapshot stores one chunk. It writes no audit event; RestoreSnapshot does.
func (s *Service) StageSnapshot(
	ctx context.Context, r *holdfastv1.StageSnapshotRequest,
) (*holdfastv1.StageSnapshotResponse, error) {
	stage := &internalv1.StageBackup{RestoreId: r.GetRestoreId(), Sequence: r.GetSequence(), Data: r.GetData()}
	c := &internalv1.Command{
		Principal: auth.Command(ctx).GetPrincipal(),
		Op:        &internalv1.Command_StageBackup{StageBackup: stage},
	}
	return edge.ApplyEmpty[holdfastv1.StageSnapshotResponse](ctx, s.Cluster, c)
}

// RestoreSnapshot replaces the state with the staged snapshot while the leader's tasks
// are paused. It validates as much as possible before, so that a refused restore does not
// pause them.
func (s *Service) RestoreSnapshot(
	ctx context.Context, r *holdfastv1.RestoreSnapshotRequest,
) (*holdfastv1.RestoreSnapshotResponse, error) {
	k, err := s.admin()
	if err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	cmd := &internalv1.RestoreBackup{
		RestoreId:    r.GetRestoreId(),
		Chunks:       r.GetChunks(),
		AbandonRuns:  r.GetAbandonRuns(),
		OtherCluster: r.GetOtherCluster(),
	}
	c.Op = &internalv1.Command_RestoreBackup{RestoreBackup: cmd}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	// The caller may disconnect: the restore then completes, or changes nothing.
	reading := context.WithoutCancel(ctx)
	others := s.readByOthers(reading, cmd)
	defer others.stop()
	began := time.Now()
	b, refusal := v.CheckRestore(cmd)
	if refusal != nil {
		return nil, refusal
	}
	defer runtime.KeepAlive(b) // the restore then need not read it again
	took := time.Since(began)
	if missing := s.missingKeys(b); len(missing) > 0 && !r.GetWithoutKeys() {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING", Message: fmt.Sprintf(
			"secrets of the snapshot are encrypted with key %s, which this leader does not have: "+
				"add it to the secrets key file of all peers, or restore without it (--without-keys)",
			strings.Join(missing, ", "))}
	}
	others.haveRead(reading, took+readGrace)
	// failpoint: stage-read
	work, cancel := context.WithTimeout(reading, restoreTimeout)
	defer cancel()
	// PauseTasks may return before the closure ends, so the closure must not write to
	// variables of this function.
	done := make(chan *holdfastv1.RestoreSnapshotResponse, 1)
	err = k.PauseTasks(work, func(ctx context.Context) error {
		wait := time.NewTimer(quiet)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		out, err := edge.Apply[*holdfastv1.RestoreSnapshotResponse](ctx, s.Cluster, c)
		done <- out
		return err
	})
	if err != nil {
		return nil, err
	}
	out := <-done
	// failpoint: restore-committed
	others.haveRestored(work)
	s.Log.WarnContext(ctx, "a snapshot was restored",
		"of_cluster", out.GetClusterId(), "index", out.GetIndex(), "taken_at", out.GetTakenAt().AsTime(),
		"ended_runs", len(out.GetEndedRuns()), "abandoned_runs", len(out.GetAbandonedRuns()))
	return out, nil
}

// missingKeys returns the keys of a snapshot that this peer does not have.
func (s *Service) missingKeys(b *fsm.Backup) []string {
	return slices.DeleteFunc(b.View().SealedUnder(), func(id string) bool {
		return s.cfg.Keys != nil && s.cfg.Keys.Has(id)
	})
}
