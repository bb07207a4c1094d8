package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Console is the client's end of a machine's serial console.
type Console struct {
	RunID    string
	ReadOnly bool
	// In carries the input, in pieces of at most 4096 bytes. Closing it detaches
	// permanently. If it is nil, nothing is sent.
	In <-chan []byte
	// Out receives the output. After a change of peers, some of it may be repeated. If Out
	// returns an error, the session ends and returns it.
	Out func([]byte) error
	// Attached is called each time the console is attached. Lost is called each time it is
	// lost and another peer is tried. Both may be nil.
	Attached func(peer string)
	Lost     func(err error)
}

// AttachConsole attaches to the console that a run keeps open. It returns nil when In is
// closed or the run has ended, and an error if the server refuses. If a peer or the leader
// fails, it attaches again: the next leader reopens the console.
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

// part runs the session with one peer.
func (s *Console) part(ctx context.Context, cc grpc.ClientConnInterface) (received bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := holdfastv1.NewConsoleServiceClient(cc).Attach(ctx)
	if err != nil {
		return false, err
	}
	// Send returns io.EOF if the stream broke: Recv returns the cause.
	attach := &holdfastv1.AttachRequest{RunId: s.RunID, ReadOnly: s.ReadOnly}
	if err := stream.Send(attach); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	attached, typed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(typed)
		select {
		case <-attached: // until then the server has no console for the input
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

// send sends the input.
func (s *Console) send(
	ctx context.Context,
	stream grpc.BidiStreamingClient[holdfastv1.AttachRequest, holdfastv1.AttachResponse],
) {
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

// Consoles returns the service of consoles. AttachConsole and ReplayConsole continue with another
// peer when one fails.
func (c *Client) Consoles() holdfastv1.ConsoleServiceClient {
	return holdfastv1.NewConsoleServiceClient(c.peers)
}

// ReplayConsole calls f for each piece of the recorded output of a console session. If a peer
// fails, it continues with another one. If f returns an error, ReplayConsole returns it.
func (c *Client) ReplayConsole(ctx context.Context, session string, f func(*holdfastv1.ConsoleOutput) error) error {
	seen := 0
	return c.peers.follow(ctx, holdfastv1.ConsoleService_ReplayConsole_FullMethodName,
		func(ctx context.Context, cc grpc.ClientConnInterface) (bool, error) {
			at := 0
			stream, err := holdfastv1.NewConsoleServiceClient(cc).ReplayConsole(ctx,
				&holdfastv1.ReplayConsoleRequest{SessionId: session})
			return finite(receive(stream, err, func(out *holdfastv1.ConsoleOutput) error {
				if at++; at <= seen {
					return nil
				}
				seen = at
				return f(out)
			}))
		})
}
