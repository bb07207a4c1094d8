package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// WatchServices calls f for each service that matches the filter (AIP-160, "" for all), and then
// for every change of one that does or did, in order. It goes on as WatchRuns does: until the
// context ends, f returns an error (which it returns), or the server refuses; with another peer
// when one fails, right after the last change, none lost and none twice.
//
// A cursor other than zero, that of an event seen before, starts right after that event instead.
// When changes that old are no longer kept, WatchServices starts again from the current state: f
// then gets every service that is not as f saw it last, but not the changes in between.
func (c *Client) WatchServices(ctx context.Context, filter string, cursor uint64, f func(*holdfastv1.ServiceEvent) error) error {
	pos := &servicePosition{cursor: cursor, known: map[string]*holdfastv1.Service{}}
	return c.peers.follow(ctx, holdfastv1.RegistryService_WatchServices_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			from := pos.cursor
			received, err := pos.part(ctx, cc, filter, f)
			if status.Code(err) == codes.OutOfRange && from != 0 {
				c.peers.cfg.Logger.WarnContext(ctx, "the changes after the cursor are no longer kept, starting again from the current state", "cursor", from)
				pos.cursor = 0
				return true, status.Error(codes.Unavailable, "cursor is gone")
			}
			return received, err
		})
}

// servicePosition is where a watch of services stands. Services of the current state have no
// cursor, but for the last one: a watch that breaks before it starts with the state again, and
// tells what has not been told.
type servicePosition struct {
	cursor uint64 // of the last change; 0: the state is not complete
	known  map[string]*holdfastv1.Service
}

func (p *servicePosition) part(ctx context.Context, cc grpc.ClientConnInterface, filter string, f func(*holdfastv1.ServiceEvent) error) (received bool, err error) {
	stream, err := holdfastv1.NewRegistryServiceClient(cc).WatchServices(ctx, &holdfastv1.WatchServicesRequest{Filter: filter, Cursor: p.cursor})
	if err != nil {
		return false, err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		id := e.GetService().GetTarget().GetId()
		again := p.cursor == 0 && proto.Equal(e.GetService(), p.known[id]) || p.cursor != 0 && e.GetCursor() != 0 && e.GetCursor() <= p.cursor
		if e.GetService() != nil && !again {
			if err := f(e); err != nil {
				return true, callerError{err}
			}
			p.known[id] = e.GetService()
		}
		p.cursor = max(p.cursor, e.GetCursor())
	}
}
