package route

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/holdfast-metal/holdfast/cluster/internal/peerauth"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// method is how the interceptors handle a method.
type method struct {
	local     bool   // served by the peer that received the call, or sent to the leader by the handler
	read      bool   // idempotency_level = NO_SIDE_EFFECTS
	late      bool   // the method declares that a repetition undoes nothing that others did meanwhile
	needs     string // the path of a field that a request needs for that
	outside   bool   // it has effects outside of the state
	out       protoreflect.MessageType
	requestID protoreflect.FieldDescriptor // a string field request_id of the request; nil if there is none
}

// methods are those of the proto registry, without those between peers and those of gRPC itself.
type methods struct{ known sync.Map } // full name → *method, nil for none

func (ms *methods) get(name string) *method {
	if v, ok := ms.known.Load(name); ok {
		return v.(*method)
	}
	v, _ := ms.known.LoadOrStore(name, find(name))
	return v.(*method)
}

// lookUpBoot is also answered without a leader. A machine that restarts meanwhile must get
// past network boot to its disk.
const lookUpBoot = "/holdfast.v1.InstallService/LookUpBoot"

func find(full string) *method {
	service, name, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	if !ok || strings.HasPrefix(service, "grpc.") || strings.HasPrefix(full, peerauth.InternalPrefix) {
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
	r := &method{
		out: out,
		local: service == "holdfast.v1.ClusterService" ||
			service == "holdfast.v1.HeartbeatService" ||
			full == lookUpBoot,
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
func (r *method) replayable(req any) bool {
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
