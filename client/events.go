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
	part := func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
		req := &holdfastv1.WatchEventsRequest{Filter: filter, Cursor: cursor}
		stream, err := holdfastv1.NewEventServiceClient(cc).WatchEvents(ctx, req)
		return receive(stream, err, func(e *holdfastv1.Event) error {
			if e.GetCursor() <= cursor && cursor != 0 {
				return nil
			}
			if err := f(e); err != nil {
				return err
			}
			cursor = e.GetCursor()
			return nil
		})
	}
	return c.peers.follow(ctx, holdfastv1.EventService_WatchEvents_FullMethodName, part)
}
