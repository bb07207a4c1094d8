package client

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Webhooks is the webhooks: URLs that are told what happens. For admins.
func (c *Client) Webhooks() holdfastv1.WebhookServiceClient {
	return holdfastv1.NewWebhookServiceClient(c.peers)
}

// WatchEvents calls f for everything that happens to machines, runs and services and matches the
// filter (AIP-160, "" for all), in order: what happens from now on, or what has happened after a
// cursor that is not zero. It goes on until the context ends, f returns an error (which it
// returns), or the server refuses; when a peer fails it goes on with another one right after the
// last event, none lost and none twice.
//
// Events without a type are bookmarks: they say how far the stream is, to go on from there later,
// and the first call of a watch from now on is one. When what follows the cursor is not kept any
// more the error is OUT_OF_RANGE: the caller has missed something, and has to know.
func (c *Client) WatchEvents(ctx context.Context, filter string, cursor uint64, f func(*holdfastv1.Event) error) error {
	return c.peers.follow(ctx, holdfastv1.EventService_WatchEvents_FullMethodName, func(ctx context.Context, cc grpc.ClientConnInterface) (received bool, err error) {
		stream, err := holdfastv1.NewEventServiceClient(cc).WatchEvents(ctx, &holdfastv1.WatchEventsRequest{Filter: filter, Cursor: cursor})
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
	})
}
