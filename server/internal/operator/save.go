package operator

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// saveChunk is the size of a message of a snapshot file, in bytes.
const saveChunk = 64 << 10

// SaveSnapshot streams a snapshot file of this peer's state. The interceptors have
// forwarded the call to a peer with the requested consistency.
func (s *Service) SaveSnapshot(
	_ *holdfastv1.SaveSnapshotRequest, stream grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	ctx := stream.Context()
	if stale := allowsStale(ctx); stale {
		s.Log.WarnContext(ctx, "streaming a snapshot of this peer's own state: it is not in the audit trail",
			"peer", s.cfg.PeerID)
	} else if err := s.noteSaving(ctx); err != nil {
		return err
	}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return err
	}
	w := &snapshotWriter{ctx: ctx, stream: stream, draining: s.Draining}
	info := fsm.BackupInfo{TakenAt: timestamppb.New(s.Time()), Peer: s.cfg.PeerID, Version: s.cfg.Version}
	if err := v.Snapshot().WriteBackup(w, info); err != nil {
		return err
	}
	return w.flush()
}

// noteSaving records in the audit trail that this peer streams a snapshot.
func (s *Service) noteSaving(ctx context.Context) error {
	_, err := s.cfg.Notes.NoteSnapshot(ctx, &holdfastv1.NoteSnapshotRequest{Peer: s.cfg.PeerID})
	return err
}

// allowsStale reports whether the caller accepts this peer's own state, which may be
// stale.
func allowsStale(ctx context.Context) bool {
	return slices.Contains(metadata.ValueFromIncomingContext(ctx, call.HeaderConsistency), "stale")
}

// snapshotWriter is an io.Writer that sends to a stream.
type snapshotWriter struct {
	ctx      context.Context //nolint:containedctx // of the stream
	stream   grpc.ServerStreamingServer[holdfastv1.SnapshotData]
	draining <-chan struct{}
	buf      []byte
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for len(w.buf) >= saveChunk {
		if err := edge.Ended(w.ctx, w.draining); err != nil {
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

// NoteSnapshot records which peer streams a snapshot, or that a snapshot was saved
// completely.
func (s *Service) NoteSnapshot(
	ctx context.Context, r *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_NoteBackup{NoteBackup: &internalv1.NoteBackup{Peer: r.GetPeer(), Saved: r.GetSavedAt()}}
	return edge.ApplyEmpty[holdfastv1.NoteSnapshotResponse](ctx, s.Cluster, c)
}
