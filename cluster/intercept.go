package cluster

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// UnaryInterceptor lets any peer take any unary call. Calls that change something are made on the
// leader; reads are made here once the local state is as new as the call asks for (metadata
// holdfast-consistency and holdfast-min-index), or on the leader when this peer is behind. Every
// answer tells the index, the leader and the last contact with it (docs/concepts.md). Health and
// reflection pass untouched; calls between peers pass when a peer makes them, and are refused to
// others; ClusterService always answers for the peer asked.
//
// Answers come before the caller's deadline: UNAVAILABLE with an ErrorInfo, and a word on what is
// missing.
func (n *Node) UnaryInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := n.checkPeer(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		r := n.routes.get(info.FullMethod)
		if r == nil {
			return next(ctx, req)
		}
		ctx, md := n.believed(ctx)
		in, cancel := inTime(ctx)
		defer cancel()
		c := &call{n: n, route: r, method: info.FullMethod, req: req, next: next, md: md}
		var (
			reply any
			err   error
		)
		switch {
		case r.local:
			reply, err = c.local(in, 0)
		case r.read:
			reply, err = c.read(in)
		default:
			reply, err = c.write(in)
		}
		if c.header == nil {
			c.header = n.header()
		}
		if herr := errors.Join(grpc.SetHeader(ctx, c.header), grpc.SetTrailer(ctx, c.trailer)); herr != nil {
			n.log.Debug("set response headers", "error", herr)
		}
		return reply, err
	}
}

// StreamInterceptor resolves the consistency of streams that only read, once, when they begin.
// Streams end on the peer that took them; nothing is forwarded. One that is not stale ends with
// UNAVAILABLE when the peer has lost touch with the cluster.
func (n *Node) StreamInterceptor() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := n.checkPeer(ss.Context(), info.FullMethod); err != nil {
			return err
		}
		r := n.routes.get(info.FullMethod)
		if r == nil || r.local || !r.read {
			return next(srv, ss)
		}
		index, stale, err := n.beginStream(ss.Context())
		if herr := ss.SetHeader(n.header()); herr != nil {
			n.log.Debug("set response headers", "error", herr)
		}
		if err != nil {
			return err
		}
		ctx := WithConsistency(ss.Context(), Consistency{Stale: true, MinIndex: index})
		if !stale {
			var stop func()
			ctx, stop = n.whileConnected(ctx)
			defer stop()
		}
		return n.stranded(ctx, next(srv, readStream{ServerStream: ss, ctx: ctx}))
	}
}

// beginStream waits until the local state is as new as a stream asks for, and gives its index.
func (n *Node) beginStream(ctx context.Context) (index uint64, stale bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	want, err := consistencyOf(md)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	if !want.Stale {
		index, err := n.readIndexHeld(ctx)
		if err != nil {
			return 0, false, err
		}
		want.MinIndex = max(want.MinIndex, index)
	}
	if err := n.waitApplied(ctx, want.MinIndex); err != nil {
		return 0, false, n.refusal(err)
	}
	return want.MinIndex, want.Stale, nil
}

type readStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s readStream) Context() context.Context { return s.ctx }
