package server

import (
	"context"

	"github.com/holdfast-metal/holdfast/cluster/call"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// RunEvents is WatchRuns for the dashboard, for a caller that is already authorized. It
// follows this peer's state, so it works without a quorum. Without a cursor it starts
// now, with a bookmark. Errors are gRPC statuses.
func (s *Server) RunEvents(
	ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.RunEvent) error,
) error {
	ctx = stale(ctx)
	r := &holdfastv1.WatchRunsRequest{Filter: filter, Cursor: cursor, Bookmarks: true}
	if cursor == 0 {
		r.Cursor = s.peer.State.View().LastRunEvent()
		if err := send(&holdfastv1.RunEvent{Cursor: r.GetCursor()}); err != nil {
			return err
		}
	}
	return s.peer.Status(ctx, holdfastv1.RunService_WatchRuns_FullMethodName, s.runs.Watch(ctx, r, send))
}

// RunLog is StreamRunLogs for the dashboard, from this peer's state. Errors are gRPC
// statuses.
func (s *Server) RunLog(
	ctx context.Context, r *holdfastv1.StreamRunLogsRequest, send func(*holdfastv1.LogChunk) error,
) error {
	ctx = stale(ctx)
	return s.peer.Status(ctx, holdfastv1.RunService_StreamRunLogs_FullMethodName, s.runs.ReadLog(ctx, r, send))
}

// Services is WatchServices for the HTTP API, for a caller that is already authorized.
// Errors are gRPC statuses.
func (s *Server) Services(
	ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.ServiceEvent) error,
) error {
	const method = holdfastv1.RegistryService_WatchServices_FullMethodName
	return s.peer.Status(ctx, method, s.services.Watch(ctx, filter, cursor, send))
}

// stale returns a context for reads of this peer's state, which may be stale.
func stale(ctx context.Context) context.Context {
	return call.WithConsistency(ctx, call.Consistency{Stale: true})
}
