package inproc

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// streamer is a stream of a service.
type streamer struct {
	impl any
	desc grpc.StreamDesc
}

// NewStream implements grpc.ClientConnInterface. It supports no options. The handler runs in a
// goroutine until it returns; ctx must be canceled unless the caller reads the stream to its end.
func (s *Server) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, fullMethod string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s.mu.RLock()
	m, ok := s.streams[fullMethod]
	s.mu.RUnlock()
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "call %s in this process: it is not registered", fullMethod)
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	p := &pipe{
		serverStream: serverStream{method: fullMethod}, up: make(chan proto.Message), down: make(chan proto.Message),
		closed: make(chan struct{}), began: make(chan struct{}), ended: make(chan struct{}), client: ctx,
	}
	inner, cancel := context.WithCancel(metadata.NewIncomingContext(metadata.NewOutgoingContext(ctx, nil), md))
	p.server = grpc.NewContextWithServerTransportStream(inner, p)
	info := &grpc.StreamServerInfo{
		FullMethod: fullMethod, IsClientStream: m.desc.ClientStreams, IsServerStream: m.desc.ServerStreams,
	}
	go func() {
		defer cancel()
		p.end(status.Convert(s.serve(m, handlerEnd{p}, info)).Err())
	}()
	return callerEnd{p}, nil
}

// serve runs the handler of a stream behind the interceptor.
func (s *Server) serve(m streamer, ss grpc.ServerStream, info *grpc.StreamServerInfo) error {
	if s.stream == nil {
		return m.desc.Handler(m.impl, ss)
	}
	return s.stream(m.impl, ss, info, m.desc.Handler)
}

// pipe is a stream between a caller and a handler. No message is buffered.
type pipe struct {
	serverStream
	up, down       chan proto.Message
	closed         chan struct{} // the caller sends no more
	began          chan struct{} // the header is complete
	ended          chan struct{} // the handler has returned err
	err            error
	client, server context.Context //nolint:containedctx // a stream has a context

	beginOnce, closeOnce sync.Once
}

func (p *pipe) begin() { p.beginOnce.Do(func() { close(p.began) }) }

func (p *pipe) end(err error) {
	p.begin()
	p.err = err
	close(p.ended)
}

// SendHeader implements grpc.ServerTransportStream.
func (p *pipe) SendHeader(md metadata.MD) error {
	err := p.SetHeader(md)
	p.begin()
	return err
}

// handlerEnd is the handler's end of a stream.
type handlerEnd struct{ *pipe }

// Context implements grpc.ServerStream.
func (h handlerEnd) Context() context.Context { return h.server }

// SetTrailer implements grpc.ServerStream.
func (h handlerEnd) SetTrailer(md metadata.MD) { _ = h.pipe.SetTrailer(md) } // never fails

// SendMsg implements grpc.ServerStream. The handler keeps the message.
func (h handlerEnd) SendMsg(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "send %T in this process: it is not a message", m)
	}
	h.begin()
	select {
	case h.down <- proto.Clone(msg):
		return nil
	case <-h.server.Done():
		return status.FromContextError(h.server.Err()).Err()
	}
}

// RecvMsg implements grpc.ServerStream.
func (h handlerEnd) RecvMsg(m any) error {
	select {
	case got := <-h.up:
		return received(m, got)
	case <-h.closed:
		return io.EOF
	case <-h.server.Done():
		return status.FromContextError(h.server.Err()).Err()
	}
}

// callerEnd is the caller's end of a stream.
type callerEnd struct{ *pipe }

// Context implements grpc.ClientStream.
func (c callerEnd) Context() context.Context { return c.client }

// Header implements grpc.ClientStream.
func (c callerEnd) Header() (metadata.MD, error) {
	select {
	case <-c.began:
	case <-c.client.Done():
		return nil, status.FromContextError(c.client.Err()).Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header, nil
}

// Trailer implements grpc.ClientStream.
func (c callerEnd) Trailer() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trailer
}

// CloseSend implements grpc.ClientStream.
func (c callerEnd) CloseSend() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return nil
}

// SendMsg implements grpc.ClientStream. The message belongs to the handler. If the handler has
// returned, it is io.EOF; RecvMsg returns the error.
func (c callerEnd) SendMsg(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "send %T in this process: it is not a message", m)
	}
	select {
	case c.up <- msg:
		return nil
	case <-c.ended:
		return io.EOF
	case <-c.client.Done():
		return status.FromContextError(c.client.Err()).Err()
	}
}

// RecvMsg implements grpc.ClientStream. At the end of the stream it is io.EOF or the error of the
// handler.
func (c callerEnd) RecvMsg(m any) error {
	select {
	case got := <-c.down:
		return received(m, got)
	case <-c.ended:
		if c.err == nil {
			return io.EOF
		}
		return c.err
	case <-c.client.Done():
		return status.FromContextError(c.client.Err()).Err()
	}
}

func received(into any, from proto.Message) error {
	if err := move(into, from); err != nil {
		return status.Errorf(codes.Internal, "receive in this process: %v", err)
	}
	return nil
}
