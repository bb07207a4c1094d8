package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// router forwards calls to the peer that serves them. The interceptors use it.
type router struct {
	n *Node

	routes routes
	last   atomic.Pointer[header] // of the last answer
}

// InterceptUnary is the interceptor with which any peer accepts any unary call. Calls that change
// something run on the leader. Reads run on this peer once its state is as new as the call requires
// (metadata holdfast-consistency and holdfast-min-index), or on the leader if this peer is
// behind. Every answer carries the index, the leader and the last contact with it
// (docs/concepts.md). Health and reflection pass unchanged. Internal calls are accepted
// only from peers. ClusterService always answers for the peer that received the call.
//
// Calls are answered before the caller's deadline, if need be with UNAVAILABLE, an
// ErrorInfo and a text that names the cause.
func (n *Node) InterceptUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (reply any, err error) {
	r := n.router.routes.get(info.FullMethod)
	if r == nil {
		if err := n.router.checkPeer(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	ctx, hopped := n.router.trusted(ctx)
	in, cancel := inTime(ctx)
	defer cancel()
	c := &unaryCall{n: n, route: r, method: info.FullMethod, req: req, next: next, hopped: hopped}
	switch {
	case r.local:
		reply, err = c.local(in, 0)
	case r.read:
		reply, err = c.read(in)
	default:
		reply, err = c.write(in)
	}
	c.setHeaders(ctx)
	return reply, err
}

// InterceptStream is the interceptor that resolves the consistency of read-only streams when they
// begin. Streams are served by the peer that accepted them; none is forwarded. A stream that is not
// stale ends with UNAVAILABLE if this peer loses contact with the cluster.
func (n *Node) InterceptStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	r := n.router.routes.get(info.FullMethod)
	if r == nil {
		if err := n.router.checkPeer(ss.Context(), info.FullMethod); err != nil {
			return err
		}
		return next(srv, ss)
	}
	if r.local || !r.read {
		return next(srv, ss)
	}
	index, stale, err := n.router.beginStream(ss.Context())
	setHeader := ss.SetHeader
	if err == nil {
		setHeader = ss.SendHeader // so that the client knows before the first message
	}
	if herr := setHeader(n.router.header()); herr != nil {
		n.log.Debug("cannot set response headers", "error", herr)
	}
	if err != nil {
		return err
	}
	ctx := call.WithConsistency(ss.Context(), call.Consistency{Stale: true, MinIndex: index})
	if !stale {
		var stop func()
		ctx, stop = n.router.whileConnected(ctx)
		defer stop()
	}
	return n.router.lostContact(ctx, next(srv, readStream{ServerStream: ss, ctx: ctx}))
}

// beginStream blocks until the local state is as new as the stream requires, and returns
// its index.
func (rt *router) beginStream(ctx context.Context) (index uint64, stale bool, err error) {
	want, err := consistencyOf(ctx)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	if !want.Stale {
		index, err := rt.n.reader.readIndexHeld(ctx)
		if err != nil {
			return 0, false, err
		}
		want.MinIndex = max(want.MinIndex, index)
	}
	if err := rt.n.reader.waitApplied(ctx, want.MinIndex); err != nil {
		return 0, false, rt.n.refusal(err)
	}
	return want.MinIndex, want.Stale, nil
}

type readStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s readStream) Context() context.Context { return s.ctx }

// route is how the interceptors handle a method.
type route struct {
	local     bool   // served by the peer that received the call, or sent to the leader by the handler
	read      bool   // idempotency_level = NO_SIDE_EFFECTS
	late      bool   // the method declares that a repetition undoes nothing that others did meanwhile
	needs     string // the path of a field that a request needs for that
	outside   bool   // it has effects outside of the state
	out       protoreflect.MessageType
	requestID protoreflect.FieldDescriptor // a string field request_id of the request; nil if there is none
}

// routes returns the routes of methods in the proto registry. Methods between peers and
// those of gRPC itself have none.
type routes struct{ known sync.Map } // full method → *route, nil for none

func (r *routes) get(method string) *route {
	if v, ok := r.known.Load(method); ok {
		return v.(*route)
	}
	v, _ := r.known.LoadOrStore(method, findRoute(method))
	return v.(*route)
}

// lookUpBoot is also answered without a leader. A machine that restarts meanwhile must get
// past network boot to its disk.
const lookUpBoot = "/holdfast.v1.InstallService/LookUpBoot"

func findRoute(method string) *route {
	service, name, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !ok || strings.HasPrefix(service, "grpc.") || strings.HasPrefix(method, internalPrefix) {
		return nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return nil
	}
	md, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName())
	if err != nil {
		return nil
	}
	r := &route{
		out: out,
		local: service == "holdfast.v1.ClusterService" ||
			service == "holdfast.v1.HeartbeatService" ||
			method == lookUpBoot,
	}
	if o, ok := md.Options().(*descriptorpb.MethodOptions); ok {
		r.read = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		if retry, ok := proto.GetExtension(o, holdfastv1.E_Retry).(*holdfastv1.MethodRetry); ok {
			r.late = retry.GetLate() || retry.GetReads() || retry.GetRule() == holdfastv1.MethodRetry_HEDGED
			r.needs, r.outside = retry.GetNeeds(), retry.GetOutside()
		}
	}
	if f := md.Input().Fields().ByName("request_id"); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
		r.requestID = f
	}
	return r
}

// replayable reports whether a peer may repeat a request as it is although its outcome is unknown:
// its method says that a late repetition undoes nothing, or it has a request id.
func (r *route) replayable(req any) bool {
	m, ok := req.(proto.Message)
	return ok && (r.requestID != nil && m.ProtoReflect().Get(r.requestID).String() != "" ||
		r.late && hasPath(m.ProtoReflect(), r.needs))
}

// hasPath reports whether a field, named by its path, has a value. An empty path names no field.
func hasPath(m protoreflect.Message, path string) bool {
	if path == "" {
		return true
	}
	name, rest, more := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	return f != nil && m.Has(f) && (!more || hasPath(m.Get(f).Message(), rest))
}
