package jsonapi

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/internal/misfit"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// endpoint serves one route.
type endpoint struct {
	Route
	rpc        grpc.ClientConnInterface
	call       string // /holdfast.v1.RunService/StartRun
	in, out    protoreflect.MessageType
	wildcards  []string                     // of Params
	query      []string                     // fields that the query may set
	body       protoreflect.FieldDescriptor // of the body; nil: the whole message
	requestID  protoreflect.FieldDescriptor // nil if there is none
	data       protoreflect.FieldDescriptor // bytes of a stream's messages; nil if there are none
	repeatable bool                         // a repeated call changes nothing more, if it has needs
	needs      string                       // the field that identifies a repeated call; empty: none
	buffers    *sync.Pool                   // of *[]byte, for responses
}

// Register adds the routes of all methods to a mux. The methods are called on rpc. It panics if a
// route is invalid, because the routes are fixed at build time.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface) {
	routes, err := Routes()
	if err != nil {
		panic(err)
	}
	for _, r := range routes {
		e, err := newEndpoint(r, rpc)
		if err != nil {
			panic(err)
		}
		rule := auth.SameAs(r.Name())
		rule.Upload = r.Method.IsStreamingClient()
		m.HandleFunc(r.Pattern(), rule, writeError, e.handler())
	}
	m.Fallback("/v1/", lost(routes))
}

// Lost returns the writer of the answer to a request that belongs to no API.
func Lost() auth.ErrorWriter {
	routes, err := Routes()
	if err != nil {
		panic(err) // the routes are fixed at build time
	}
	return lost(routes)
}

func newEndpoint(r Route, rpc grpc.ClientConnInterface) (*endpoint, error) {
	e := &endpoint{Route: r, rpc: rpc, call: "/" + r.Name(), query: r.Query(), buffers: new(sync.Pool)}
	var err error
	if e.in, err = protoregistry.GlobalTypes.FindMessageByName(r.Method.Input().FullName()); err != nil {
		return nil, err
	}
	if e.out, err = protoregistry.GlobalTypes.FindMessageByName(r.Method.Output().FullName()); err != nil {
		return nil, err
	}
	for _, p := range r.Params {
		e.wildcards = append(e.wildcards, wildcard(p))
	}
	if r.Body != "*" && r.Body != "" {
		e.body = r.Method.Input().Fields().ByName(protoreflect.Name(r.Body))
	}
	if isString(r.Method.Input(), requestID) {
		e.requestID = r.Method.Input().Fields().ByName(requestID)
	}
	if fd := r.Method.Output().Fields().ByName("data"); fd != nil && fd.Kind() == protoreflect.BytesKind {
		e.data = fd
	}
	retry, _ := proto.GetExtension(r.Method.Options(), holdfastv1.E_Retry).(*holdfastv1.MethodRetry)
	e.repeatable, e.needs = retry.GetRule() != holdfastv1.MethodRetry_ONCE || r.reads(), retry.GetNeeds()
	return e, nil
}

// reads reports whether the method changes nothing.
func (r *Route) reads() bool {
	o, ok := r.Method.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

func (e *endpoint) handler() http.HandlerFunc {
	switch {
	case e.Method.IsStreamingClient():
		return e.duplex
	case e.Method.IsStreamingServer():
		return e.stream
	}
	return e.unary
}

// unary serves a method without streams.
func (e *endpoint) unary(w http.ResponseWriter, r *http.Request) {
	req, resp := e.in.New().Interface(), e.out.New().Interface()
	if err := e.read(r, req); err != nil {
		refuse(w, err)
		return
	}
	ctx, err := outgoing(r.Context(), r)
	if err != nil {
		refuse(w, err)
		return
	}
	var header metadata.MD
	err = e.rpc.Invoke(ctx, e.call, req, resp, grpc.Header(&header))
	httpjson.CopyPosition(w, header)
	if err != nil {
		refuse(w, err)
		return
	}
	buf, ok := e.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer e.buffers.Put(buf)
	if *buf, err = encode((*buf)[:0], resp); err != nil {
		refuse(w, err)
		return
	}
	*buf = append(*buf, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(*buf)))
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(*buf) // an error means that the client has disconnected
}

// encode appends a message as JSON. The names are those of the .proto files, as in -o json.
func encode(to []byte, m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.MarshalAppend(to, m)
}

// outgoing returns a context with the consistency that a request requires in its headers
// (docs/api.md) or its query.
func outgoing(ctx context.Context, r *http.Request) (context.Context, error) {
	want := r.Header.Get(call.HeaderConsistency)
	if r.URL.RawQuery != "" {
		if v := r.URL.Query().Get(consistency); v != "" {
			want = v
		}
	}
	switch want {
	case "", "linearizable":
	case "stale":
		ctx = metadata.AppendToOutgoingContext(ctx, call.HeaderConsistency, want)
	default:
		return nil, invalid("INVALID_CONSISTENCY", "consistency: "+misfit.Quote(want)+
			" is neither stale nor linearizable")
	}
	if index := r.Header.Get(call.HeaderMinIndex); index != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, call.HeaderMinIndex, index)
	}
	return ctx, nil
}
