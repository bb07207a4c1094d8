package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Console is one end of a machine's serial console.
type Console struct {
	RunID    string
	ReadOnly bool
	// In is what is typed, in pieces of at most 4096 bytes. When it is closed the console is left
	// for good; nil types nothing.
	In <-chan []byte
	// Out takes what is shown. After a change of peers a little of it comes again. An error ends
	// the session and is returned.
	Out func([]byte) error
	// Attached is called each time the console is there, Lost each time that it is not any more and
	// another peer is tried. Both may be nil.
	Attached func(peer string)
	Lost     func(err error)
}

// AttachConsole attaches to the console that a run keeps open, until it is left, the run has ended
// (nil in both cases) or the server refuses. When a peer or the leader fails it attaches again: the
// next leader opens the console anew.
func (c *Client) AttachConsole(ctx context.Context, s Console) error {
	return c.peers.follow(ctx, holdfastv1.ConsoleService_Attach_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			received, err := s.part(ctx, cc)
			var mine callerError
			if s.Lost != nil && ctx.Err() == nil && resumable(err) && !errors.As(err, &mine) && received {
				s.Lost(err)
			}
			return received, err
		})
}

// part is the session with one peer.
func (s *Console) part(ctx context.Context, cc grpc.ClientConnInterface) (received bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := holdfastv1.NewConsoleServiceClient(cc).Attach(ctx)
	if err != nil {
		return false, err
	}
	// An error of Send is io.EOF: Recv tells which.
	if err := stream.Send(&holdfastv1.AttachRequest{RunId: s.RunID, ReadOnly: s.ReadOnly}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	attached, typed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(typed)
		select {
		case <-attached: // before that there is nobody who could take it
		case <-ctx.Done():
			return
		}
		s.send(ctx, stream)
	}()
	defer func() {
		stop()
		<-typed
	}()
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return received, errEnded
		}
		if err != nil {
			return received, err
		}
		if r.GetAttached() && !received {
			if received = true; s.Attached != nil {
				s.Attached(r.GetPeer())
			}
			close(attached)
		}
		if len(r.GetData()) > 0 {
			if err := s.Out(r.GetData()); err != nil {
				return true, callerError{err}
			}
		}
	}
}

// send sends what is typed.
func (s *Console) send(ctx context.Context, stream grpc.BidiStreamingClient[holdfastv1.AttachRequest, holdfastv1.AttachResponse]) {
	for {
		select {
		case data, ok := <-s.In:
			r := &holdfastv1.AttachRequest{Data: data, Leave: !ok}
			if stream.Send(r) != nil || !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
