package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WatchServices calls f for each service that matches the filter (AIP-160, "" for all), and
// then for every change of a service that matches or did match, in order. It runs until the
// context ends, f returns an error (which it returns), or the server refuses. If a peer
// fails, it continues with another one right after the last change: none is lost or
// delivered twice.
//
// A cursor other than zero starts right after the event that had it. If changes that old
// are no longer kept, WatchServices starts again with the current state. Then f receives
// every service that differs from the one it saw last, but not the changes in between.
func (c *Client) WatchServices(
	ctx context.Context, filter string, cursor uint64, f func(*holdfastv1.ServiceEvent) error,
) error {
	pos := &servicePosition{cursor: cursor, known: map[string]*holdfastv1.Service{}}
	return c.peers.follow(ctx, holdfastv1.RegistryService_WatchServices_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			from := pos.cursor
			received, err := pos.part(ctx, cc, filter, f)
			if status.Code(err) == codes.OutOfRange && from != 0 {
				c.peers.cfg.Logger.WarnContext(ctx,
					"changes after the cursor are no longer kept, restarting from the current state", "cursor", from)
				pos.cursor = 0
				return true, status.Error(codes.Unavailable, "cursor is gone")
			}
			return received, err
		})
}

// servicePosition is the progress of a watch of services. Services of the current state
// carry no cursor, except the last one. A watch that breaks before that starts again with
// the state and skips services already delivered.
type servicePosition struct {
	cursor uint64 // of the last change; 0 until the state is complete
	known  map[string]*holdfastv1.Service
}

func (p *servicePosition) part(
	ctx context.Context, cc grpc.ClientConnInterface, filter string, f func(*holdfastv1.ServiceEvent) error,
) (bool, error) {
	req := &holdfastv1.WatchServicesRequest{Filter: filter, Cursor: p.cursor}
	stream, err := holdfastv1.NewRegistryServiceClient(cc).WatchServices(ctx, req)
	return receive(stream, err, func(e *holdfastv1.ServiceEvent) error {
		id := e.GetService().GetTarget().GetId()
		again := p.cursor == 0 && proto.Equal(e.GetService(), p.known[id]) ||
			p.cursor != 0 && e.GetCursor() != 0 && e.GetCursor() <= p.cursor
		if e.GetService() != nil && !again {
			if err := f(e); err != nil {
				return err
			}
			p.known[id] = e.GetService()
		}
		p.cursor = max(p.cursor, e.GetCursor())
		return nil
	})
}
