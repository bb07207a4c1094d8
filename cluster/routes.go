package cluster

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// route is how the interceptors handle a method.
type route struct {
	local     bool // served by the peer that was asked, or sent to the leader by the handler itself
	read      bool // idempotency_level = NO_SIDE_EFFECTS
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
	r := &route{
		out: out,
		local: service == "holdfast.v1.ClusterService" ||
			service == "holdfast.v1.HeartbeatService" ||
			method == lookUpBoot,
	}
	if o, ok := md.Options().(*descriptorpb.MethodOptions); ok {
		r.read = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	}
	if f := md.Input().Fields().ByName("request_id"); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
		r.requestID = f
	}
	return r
}

// replayable reports whether a request may be repeated although its outcome is unknown.
func (r *route) replayable(req any) bool {
	m, ok := req.(proto.Message)
	return ok && r.requestID != nil && m.ProtoReflect().Get(r.requestID).String() != ""
}
