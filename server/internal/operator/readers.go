package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Each peer has to read a snapshot file before it can replace its state. The leader reads
// it before the restore is committed, and the other peers read it at the same time. A
// peer that has not read it by then, because it is slow, unreachable or of an older
// version, reads it when it applies the restore. Until it is done, it serves nothing.

const (
	// readGrace is the additional time that the other peers have to read the file, after the
	// time that the leader took.
	readGrace = time.Second
	// restoredWait is the time limit for the other peers to apply the restore.
	restoredWait = 3 * time.Second
)

// readers are the other peers that read the staged snapshot.
type readers struct {
	stop func() // cancels the calls and waits for them to end
	each []reader
}

// reader is one of them.
type reader struct {
	read     chan struct{} // closed when the peer has read the snapshot, or has failed to
	restored chan struct{} // closed when the peer has applied the restore, or its call has ended
}

// readByOthers makes the other peers read the staged snapshot. A peer that fails reads
// it when it applies the restore.
func (s *Service) readByOthers(ctx context.Context, c *internalv1.RestoreBackup) *readers {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	rs := &readers{stop: func() {
		cancel()
		all.Wait()
	}}
	if s.cfg.Peers == nil {
		return rs
	}
	for _, p := range s.cfg.Status(ctx).GetPeers() {
		if p.GetId() == s.cfg.PeerID || p.GetError() != "" {
			continue
		}
		r := reader{read: make(chan struct{}), restored: make(chan struct{})}
		rs.each = append(rs.each, r)
		all.Go(func() {
			if err := s.readAt(ctx, p.GetId(), c, r); err != nil && ctx.Err() == nil {
				s.Log.InfoContext(ctx, "peer could not read the snapshot in advance, it reads it when it applies the restore",
					"peer", p.GetId(), "error", err)
			}
		})
	}
	return rs
}

// readAt makes one peer read the staged snapshot, and blocks until it has restored it.
func (s *Service) readAt(ctx context.Context, id string, c *internalv1.RestoreBackup, r reader) error {
	read := sync.OnceFunc(func() { close(r.read) })
	defer read()
	defer close(r.restored)
	conn, err := s.cfg.Peers.PeerConn(id)
	if err != nil {
		return err
	}
	staged := &internalv1.ReadStageRequest{RestoreId: c.GetRestoreId(), Chunks: c.GetChunks()}
	stream, err := internalv1.NewStageServiceClient(conn).ReadStage(ctx, staged)
	if err != nil {
		return fmt.Errorf("ask peer %s to read the snapshot: %w", id, err)
	}
	for {
		_, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("ask peer %s to read the snapshot: %w", id, err)
		}
		read()
	}
}

// haveRead waits until all readers have read the snapshot, for at most that time. It
// drops those that have not.
func (rs *readers) haveRead(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	rs.each = slices.DeleteFunc(rs.each, func(r reader) bool { return !reached(ctx, r.read) })
}

// haveRestored waits until the remaining readers have applied the restore.
func (rs *readers) haveRestored(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restoredWait)
	defer cancel()
	for _, r := range rs.each {
		reached(ctx, r.restored)
	}
}

// reached waits until a channel is closed, and reports whether it was before ctx ended.
func reached(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
