package client

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Webhooks returns the service that manages webhooks. It requires the admin role.
func (c *Client) Webhooks() holdfastv1.WebhookServiceClient {
	return holdfastv1.NewWebhookServiceClient(c.peers)
}

// WatchEvents calls f, in order, for each event of a machine, run or service that matches
// the filter (AIP-160, "" for all). Cursor 0 starts at the next event, any other cursor
// right after its event. WatchEvents runs until the context ends, f returns an error (which
// it returns), or the server refuses. If a peer fails, it continues with another one right
// after the last event: none is lost or delivered twice.
//
// An event without a type is a bookmark: its cursor is a point to resume from. A watch that
// starts at the next event begins with one. If the events after the cursor are no longer
// kept, WatchEvents returns OUT_OF_RANGE: the caller has missed events.
func (c *Client) WatchEvents(ctx context.Context, filter string, cursor uint64, f func(*holdfastv1.Event) error) error {
	part := func(ctx context.Context, cc grpc.ClientConnInterface) (received bool, err error) {
		req := &holdfastv1.WatchEventsRequest{Filter: filter, Cursor: cursor}
		stream, err := holdfastv1.NewEventServiceClient(cc).WatchEvents(ctx, req)
		if err != nil {
			return false, err
		}
		for {
			e, err := stream.Recv()
			if err != nil {
				return received, err
			}
			received = true
			if e.GetCursor() <= cursor && cursor != 0 {
				continue
			}
			if err := f(e); err != nil {
				return true, callerError{err}
			}
			cursor = e.GetCursor()
		}
	}
	return c.peers.follow(ctx, holdfastv1.EventService_WatchEvents_FullMethodName, part)
}
