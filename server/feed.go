package server

import (
	"context"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// RunEvents is WatchRuns for the dashboard: ctx's caller has been let in. It follows this peer's
// own state, also without a quorum, and begins after the cursor; without one, now, with a bookmark.
// Its errors are statuses.
func (s *Server) RunEvents(ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.RunEvent) error) error {
	ctx = stale(ctx)
	r := &holdfastv1.WatchRunsRequest{Filter: filter, Cursor: cursor, Bookmarks: true}
	if cursor == 0 {
		r.Cursor = s.state.View().LastEvent()
		if err := send(&holdfastv1.RunEvent{Cursor: r.GetCursor()}); err != nil {
			return err
		}
	}
	return s.toStatus(ctx, holdfastv1.RunService_WatchRuns_FullMethodName, s.watchRuns(ctx, r, send))
}

// RunLog is StreamRunLogs for the dashboard, from this peer's own state. Its errors are statuses.
func (s *Server) RunLog(ctx context.Context, r *holdfastv1.StreamRunLogsRequest, send func(*holdfastv1.LogChunk) error) error {
	ctx = stale(ctx)
	return s.toStatus(ctx, holdfastv1.RunService_StreamRunLogs_FullMethodName, s.streamRunLogs(ctx, r, send))
}

// stale takes what this peer has.
func stale(ctx context.Context) context.Context {
	return cluster.WithConsistency(ctx, cluster.Consistency{Stale: true})
}
