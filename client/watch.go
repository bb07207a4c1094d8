package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WatchRuns calls f for the current state of each run that matches the filter (AIP-160, ""
// for all), and then for every transition, in order. It runs until the context ends, f
// returns an error (which it returns), or the server refuses. If a peer fails, WatchRuns
// continues with another one right after the last event: none is lost or delivered twice.
//
// A cursor other than zero starts right after the event that had it. If events that old are
// no longer kept, WatchRuns starts again with the current state. Then f receives every run
// as it is now, including unchanged ones, but not the transitions in between.
func (c *Client) WatchRuns(
	ctx context.Context, filter string, cursor uint64, f func(*holdfastv1.RunEvent) error,
) error {
	pos := newPosition(cursor)
	return c.peers.follow(ctx, holdfastv1.RunService_WatchRuns_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			from := pos.resume()
			req := &holdfastv1.WatchRunsRequest{Filter: filter, Cursor: from, Bookmarks: true}
			received, err := watchPart(ctx, cc, req, pos, f)
			if status.Code(err) == codes.OutOfRange && from != 0 {
				c.peers.cfg.Logger.WarnContext(ctx,
					"events after the cursor are no longer kept, restarting from the current state", "cursor", from)
				pos.restart()
				return true, status.Error(codes.Unavailable, "cursor is gone")
			}
			return received, err
		})
}

func watchPart(ctx context.Context, cc grpc.ClientConnInterface, req *holdfastv1.WatchRunsRequest,
	pos *position, f func(*holdfastv1.RunEvent) error) (bool, error) {
	stream, err := holdfastv1.NewRunServiceClient(cc).WatchRuns(ctx, req)
	return receive(stream, err, func(event *holdfastv1.RunEvent) error {
		if !pos.fresh(event) {
			return nil
		}
		if err := f(event); err != nil {
			return err
		}
		// Not earlier: an event that f refused counts as not seen.
		pos.seen(event)
		return nil
	})
}
