package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Each peer has to read a snapshot before it can take its state. The leader does so before it
// restores anything, and the others do it at the same time: one that has not, because it is slow,
// cannot be reached or is of an older build, reads when the restore is applied, and serves nothing
// meanwhile.

const (
	// readGrace is how long the leader waits for others to read, beyond as long as it took itself.
	readGrace = time.Second
	// restoredWait is how long it waits for them to have restored what is committed.
	restoredWait = 3 * time.Second
)

// stageService is StageService.
type stageService struct {
	internalv1.UnimplementedStageServiceServer
	*Server
}

// ReadStage reads what is staged and keeps it until it is restored, or the leader does not want it
// any more.
func (s *stageService) ReadStage(
	r *internalv1.ReadStageRequest, stream grpc.ServerStreamingServer[internalv1.ReadStageResponse],
) error {
	ctx := stream.Context()
	v, err := s.node.View(ctx)
	if err != nil {
		return err
	}
	// failpoint: stage-to-read
	b, refusal := v.ReadStage(r.GetRestoreId(), r.GetChunks())
	if refusal != nil {
		return refusal
	}
	defer runtime.KeepAlive(b)
	if err := stream.Send(&internalv1.ReadStageResponse{}); err != nil {
		return err
	}
	for mark := any(nil); ; {
		changed := s.state.Changed()
		if v := s.state.View(); v.StagedMark() != mark { // seldom: most entries are not about the stage
			if v.Staged() != r.GetRestoreId() {
				return nil
			}
			mark = v.StagedMark()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.draining:
			return errDraining
		}
	}
}

// readers are the other peers that read what is staged.
type readers struct {
	stop func() // ends what is under way and waits for it
	each []reader
}

type reader struct {
	read     chan struct{} // closed when it has read, or will not
	restored chan struct{} // closed when it has restored, or is not waited for
}

// readElsewhere lets the other peers read what is staged. Those who fail will read when they have
// to.
func (s *operatorService) readElsewhere(ctx context.Context, c *internalv1.RestoreBackup) *readers {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	rs := &readers{stop: func() {
		cancel()
		all.Wait()
	}}
	if s.cfg.Peers == nil {
		return rs
	}
	for _, p := range s.node.Status(ctx).GetPeers() {
		if p.GetId() == s.cfg.PeerID || p.GetError() != "" {
			continue
		}
		r := reader{read: make(chan struct{}), restored: make(chan struct{})}
		rs.each = append(rs.each, r)
		all.Go(func() {
			if err := s.readAt(ctx, p.GetId(), c, r); err != nil && ctx.Err() == nil {
				s.log.InfoContext(ctx, "a peer will read the snapshot when it is restored, not before", "peer", p.GetId(), "error", err)
			}
		})
	}
	return rs
}

func (s *operatorService) readAt(ctx context.Context, id string, c *internalv1.RestoreBackup, r reader) error {
	read := sync.OnceFunc(func() { close(r.read) })
	defer read()
	defer close(r.restored)
	conn, err := s.cfg.Peers.PeerConn(id)
	if err != nil {
		return err
	}
	stream, err := internalv1.NewStageServiceClient(conn).ReadStage(ctx, &internalv1.ReadStageRequest{RestoreId: c.GetRestoreId(), Chunks: c.GetChunks()})
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

// haveRead waits until all have read, but no longer than that. Who has not is not waited for any
// more.
func (rs *readers) haveRead(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	rs.each = slices.DeleteFunc(rs.each, func(r reader) bool { return !reached(ctx, r.read) })
}

// haveRestored waits until those who have read have restored it too.
func (rs *readers) haveRestored(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restoredWait)
	defer cancel()
	for _, r := range rs.each {
		reached(ctx, r.restored)
	}
}

// reached waits for a channel to be closed and says whether it was.
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
