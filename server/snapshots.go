package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// saveChunk is how many bytes of a snapshot file one message has.
	saveChunk = 64 << 10
	// quiet is how long nothing is sent to hardware before a restore, so that nothing is on its way
	// any more (decision 0004: V + D, and some).
	quiet = 1100 * time.Millisecond
	// restoreTimeout bounds a restore from the moment at which all of the file has been read.
	restoreTimeout = 2 * time.Minute
	// restoreCallTimeout bounds the call as a whole when its caller does not.
	restoreCallTimeout = 30 * time.Minute
)

// SaveSnapshot streams a snapshot file of this peer's state, which the interceptors have brought to
// where the call asks for.
func (s *operatorService) SaveSnapshot(
	_ *holdfastv1.SaveSnapshotRequest, stream grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	ctx := stream.Context()
	if stale := askedStale(ctx); stale {
		s.log.WarnContext(ctx, "a snapshot of this peer's own state is read: it is not in the audit trail", "peer", s.cfg.PeerID)
	} else if _, err := holdfastv1.NewOperatorServiceClient(s.local).NoteSnapshot(ctx, &holdfastv1.NoteSnapshotRequest{Peer: s.cfg.PeerID}); err != nil {
		return err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return err
	}
	w := &snapshotWriter{ctx: ctx, stream: stream, draining: s.draining}
	if err := v.Snapshot().WriteBackup(w, fsm.BackupInfo{TakenAt: timestamppb.Now(), Peer: s.cfg.PeerID, Version: s.cfg.Version}); err != nil {
		return err
	}
	return w.flush()
}

// askedStale reports whether the caller takes the peer's own state as it is.
func askedStale(ctx context.Context) bool {
	return slices.Contains(metadata.ValueFromIncomingContext(ctx, cluster.HeaderConsistency), "stale")
}

// snapshotWriter sends what is written to it.
type snapshotWriter struct {
	ctx      context.Context //nolint:containedctx // of the stream that it writes to
	stream   grpc.ServerStreamingServer[holdfastv1.SnapshotData]
	draining <-chan struct{}
	buf      []byte
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for len(w.buf) >= saveChunk {
		if err := ended(w.ctx, w.draining); err != nil {
			return 0, err
		}
		if err := w.stream.Send(&holdfastv1.SnapshotData{Data: w.buf[:saveChunk]}); err != nil {
			return 0, err
		}
		w.buf = slices.Clone(w.buf[saveChunk:])
	}
	return len(p), nil
}

func (w *snapshotWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	return w.stream.Send(&holdfastv1.SnapshotData{Data: w.buf})
}

// NoteSnapshot records which peer reads a snapshot, or has it.
func (s *operatorService) NoteSnapshot(
	ctx context.Context, r *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	c := s.command(ctx)
	c.Op = &internalv1.Command_NoteBackup{NoteBackup: &internalv1.NoteBackup{Peer: r.GetPeer(), Saved: r.GetSavedAt()}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.NoteSnapshotResponse{}, nil
}

// StageSnapshot takes a chunk. It leaves no audit event: the restore does.
func (s *operatorService) StageSnapshot(
	ctx context.Context, r *holdfastv1.StageSnapshotRequest,
) (*holdfastv1.StageSnapshotResponse, error) {
	c := &internalv1.Command{FeatureLevel: 1, Principal: s.command(ctx).GetPrincipal(), Op: &internalv1.Command_StageBackup{
		StageBackup: &internalv1.StageBackup{RestoreId: r.GetRestoreId(), Sequence: r.GetSequence(), Data: r.GetData()}}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.StageSnapshotResponse{}, nil
}

// RestoreSnapshot replaces the state by what was staged, while the leader's tasks stand still. What
// can be found wrong before is, so that they do not stand still for nothing.
func (s *operatorService) RestoreSnapshot(
	ctx context.Context, r *holdfastv1.RestoreSnapshotRequest,
) (*holdfastv1.RestoreSnapshotResponse, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	c := s.command(ctx)
	cmd := &internalv1.RestoreBackup{RestoreId: r.GetRestoreId(), Chunks: r.GetChunks(), AbandonRuns: r.GetAbandonRuns(), OtherCluster: r.GetOtherCluster()}
	c.Op = &internalv1.Command_RestoreBackup{RestoreBackup: cmd}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	// The caller may go: what has begun is done, or not at all.
	reading := context.WithoutCancel(ctx)
	others := s.readElsewhere(reading, cmd)
	defer others.stop()
	began := time.Now()
	b, refusal := v.CheckRestore(cmd)
	if refusal != nil {
		return nil, refusal
	}
	defer runtime.KeepAlive(b) // so that the restore need not read it again
	took := time.Since(began)
	if missing := s.missingKeys(b); len(missing) > 0 && !r.GetWithoutKeys() {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING", Message: fmt.Sprintf(
			"secrets of the snapshot are sealed under key %s, which this leader does not have: add it to the secrets key file of all peers, or say that this is meant (--without-keys)", strings.Join(missing, ", "))}
	}
	others.haveRead(reading, took+readGrace)
	// failpoint: stage-read
	work, cancel := context.WithTimeout(reading, restoreTimeout)
	defer cancel()
	// Interlude may return while the closure runs on, which therefore writes to no variable of this
	// function.
	done := make(chan *holdfastv1.RestoreSnapshotResponse, 1)
	err = k.Interlude(work, func(ctx context.Context) error {
		wait := time.NewTimer(quiet)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		out, err := apply[*holdfastv1.RestoreSnapshotResponse](ctx, s.node, c)
		done <- out
		return err
	})
	if err != nil {
		return nil, err
	}
	out := <-done
	// failpoint: restore-committed
	others.haveRestored(work)
	s.log.WarnContext(ctx, "a snapshot was restored", "of_cluster", out.GetClusterId(), "index", out.GetIndex(), "taken_at", out.GetTakenAt().AsTime(),
		"ended_runs", len(out.GetEndedRuns()), "abandoned_runs", len(out.GetAbandonedRuns()))
	return out, nil
}

func (s *operatorService) missingKeys(b *fsm.Backup) []string {
	return slices.DeleteFunc(b.View().SealedUnder(), func(id string) bool { return s.cfg.Keys != nil && s.cfg.Keys.Has(id) })
}
