package cluster

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// route is what the interceptors need to know of a method.
type route struct {
	local     bool // it tells of the peer that was asked, or goes to the leader in its own way
	read      bool // idempotency_level = NO_SIDE_EFFECTS
	out       protoreflect.MessageType
	requestID protoreflect.FieldDescriptor // a string field request_id of the request; nil if there is none
}

// routes knows the methods of all services in the proto registry. Those between peers and gRPC's
// own have no route.
type routes struct{ known sync.Map } // full method → *route, nil for none

func (r *routes) get(method string) *route {
	if v, ok := r.known.Load(method); ok {
		return v.(*route)
	}
	v, _ := r.known.LoadOrStore(method, findRoute(method))
	return v.(*route)
}

// lookUpBoot is answered without a leader, too: a machine that restarts while there is none must
// get past its network card to its disk.
const lookUpBoot = "/holdfast.v1.InstallService/LookUpBoot"

func findRoute(method string) *route {
	service, name, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !ok || strings.HasPrefix(service, "grpc.") || strings.HasPrefix(service, "holdfast.internal.") {
		return nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	md := sd.Methods().ByName(protoreflect.Name(name))
	if md == nil {
		return nil
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName())
	if err != nil {
		return nil
	}
	r := &route{out: out, local: service == "holdfast.v1.ClusterService" || service == "holdfast.v1.HeartbeatService" || method == lookUpBoot}
	if o, ok := md.Options().(*descriptorpb.MethodOptions); ok {
		r.read = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	}
	if f := md.Input().Fields().ByName("request_id"); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
		r.requestID = f
	}
	return r
}

// replayable reports whether a request may be made again although nobody knows what became of it.
func (r *route) replayable(req any) bool {
	m, ok := req.(proto.Message)
	return ok && r.requestID != nil && m.ProtoReflect().Get(r.requestID).String() != ""
}
