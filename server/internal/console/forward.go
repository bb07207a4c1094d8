package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// noLeaderFor returns UNAVAILABLE: the call had no effect, so it may be retried.
func noLeaderFor(what string) error {
	return &outcome.Error{
		Outcome: outcome.NotApplied,
		Err:     fmt.Errorf("%w: no leader is known to serve %s", outcome.ErrNoLeader, what),
	}
}

// forwarded reports whether another peer has forwarded the stream. It is not forwarded
// again.
func forwarded(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)) > 0
}

// forward sends the stream to the leader.
func (s *Service) forward(
	ctx context.Context, stream consoleStream, first *holdfastv1.AttachRequest, leader string,
) error {
	conn, err := s.cfg.Peers.PeerConn(leader)
	if err != nil {
		return &outcome.Error{
			Outcome: outcome.NotApplied, Leader: leader, Err: fmt.Errorf("%w: %w", outcome.ErrNoLeader, err),
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	md := metadata.Pairs(call.HeaderForwardedBy, s.cfg.PeerID)
	auth.Forward(ctx, md)
	up, err := holdfastv1.NewConsoleServiceClient(conn).Attach(metadata.NewOutgoingContext(ctx, md))
	if err != nil {
		return err
	}
	if err := up.Send(first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	go func() {
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				_ = up.CloseSend()
				return
			}
			if err != nil || up.Send(proto.CloneOf(r)) != nil {
				cancel() // the caller disconnected, or up.Recv returns the cause
				return
			}
		}
	}()
	for {
		r, err := up.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(r); err != nil {
			return err
		}
	}
}
