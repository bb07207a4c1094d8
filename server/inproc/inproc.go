// Package inproc calls the gRPC services of this process without a network, through the
// same interceptors as remote calls. The HTTP APIs are gRPC clients of their own peer,
// except for heartbeats (server.Heartbeats).
//
// It owns the path of a call from a client stub to a handler and back. It must not know
// services, and no call may bypass the interceptors.
package inproc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Server is a grpc.ServiceRegistrar for handlers and a grpc.ClientConnInterface for their
// callers. The context of a call supplies its deadline and identity; outgoing metadata
// becomes incoming metadata. A request belongs to the handler once it is passed, as if it
// had been sent.
type Server struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor

	mu      sync.RWMutex
	methods map[string]method // by full method
	streams map[string]streamer
}

var (
	_ grpc.ServiceRegistrar    = (*Server)(nil)
	_ grpc.ClientConnInterface = (*Server)(nil)
)

type method struct {
	impl    any
	handler grpc.MethodHandler
}

// New returns a server whose calls run through the interceptors. Each may be nil.
func New(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) *Server {
	return &Server{unary: unary, stream: stream, methods: map[string]method{}, streams: map[string]streamer{}}
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range d.Methods {
		s.methods["/"+d.ServiceName+"/"+m.MethodName] = method{impl: impl, handler: m.Handler}
	}
	for _, m := range d.Streams {
		s.streams["/"+d.ServiceName+"/"+m.StreamName] = streamer{impl: impl, desc: m}
	}
}

// Invoke implements grpc.ClientConnInterface. It supports the options grpc.Header and
// grpc.Trailer. Errors are statuses.
func (s *Server) Invoke(ctx context.Context, fullMethod string, args, reply any, opts ...grpc.CallOption) error {
	s.mu.RLock()
	m, ok := s.methods[fullMethod]
	s.mu.RUnlock()
	if !ok {
		return status.Errorf(codes.Unimplemented, "call %s in this process: it is not registered", fullMethod)
	}
	in, isIn := args.(proto.Message)
	out, isOut := reply.(proto.Message)
	if !isIn || !isOut {
		return status.Errorf(codes.Internal, "call %s in this process: %T and %T are not messages",
			fullMethod, args, reply)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	stream := &serverStream{method: fullMethod}
	ctx = metadata.NewIncomingContext(metadata.NewOutgoingContext(ctx, nil), md)
	ctx = grpc.NewContextWithServerTransportStream(ctx, stream)
	got, err := m.handler(m.impl, ctx, func(into any) error { return move(into, in) }, s.unary)
	stream.answer(opts)
	if err != nil {
		return status.Convert(err).Err()
	}
	if err := move(out, got); err != nil {
		return status.Errorf(codes.Internal, "call %s in this process: %v", fullMethod, err)
	}
	return nil
}

// move sets one message to the contents of another of the same type, which must not be used
// afterwards. Messages with lists or maps share them, because they may be long. All others
// are copied, which is several times as fast.
func move(into, from any) error {
	dst, ok := into.(proto.Message)
	src, also := from.(proto.Message)
	if !ok || !also || dst.ProtoReflect().Descriptor() != src.ProtoReflect().Descriptor() {
		return fmt.Errorf("%T is not a %T", from, into)
	}
	to := dst.ProtoReflect()
	proto.Reset(dst)
	if !collects(to.Descriptor()) {
		proto.Merge(dst, src)
		return nil
	}
	src.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
	to.SetUnknown(src.ProtoReflect().GetUnknown())
	return nil
}

// collects reports whether a message type has repeated fields or maps.
func collects(d protoreflect.MessageDescriptor) bool {
	for i := range d.Fields().Len() {
		if d.Fields().Get(i).Cardinality() == protoreflect.Repeated {
			return true
		}
	}
	return false
}

// serverStream collects the headers that handlers and interceptors set.
type serverStream struct {
	method string

	mu              sync.Mutex
	header, trailer metadata.MD
}

// Method implements grpc.ServerTransportStream.
func (s *serverStream) Method() string { return s.method }

// SetHeader implements grpc.ServerTransportStream.
func (s *serverStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (s *serverStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (s *serverStream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// answer stores the headers and trailers in the call options that request them.
func (s *serverStream) answer(opts []grpc.CallOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = s.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = s.trailer
		}
	}
}
