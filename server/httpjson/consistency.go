package httpjson

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// writerKey is the context key of the writer that belongs to a request.
type writerKey struct{}

// wantsStale reports whether a request may be answered from this peer's own state. That is the
// case for a read with ?consistency=stale (docs/concepts.md).
func wantsStale(r *http.Request) (stale bool, err *auth.Error) {
	if !reads(r) || r.URL.RawQuery == "" {
		return false, nil
	}
	switch v := r.URL.Query().Get("consistency"); v {
	case "stale":
		return true, nil
	case "linearizable", "":
		return false, nil
	default:
		return false, &auth.Error{
			Code:    codes.InvalidArgument,
			Reason:  "INVALID_CONSISTENCY",
			Message: "consistency is " + strconv.Quote(v) + ": want stale or linearizable",
		}
	}
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// makesCalls reports whether a route is served by gRPC calls. Heartbeats are not: they
// bypass gRPC (server.Heartbeats).
func (r *Route) makesCalls() bool { return !strings.HasPrefix(r.RPC, "HeartbeatService/") }

// Conn returns the connection for the calls of routes. It copies the consistency of the
// HTTP request to the call, and the position in the call's answer to the HTTP response.
func Conn(rpc grpc.ClientConnInterface) grpc.ClientConnInterface { return conn{rpc} }

type conn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	w, ok := ctx.Value(writerKey{}).(*writer)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if w.stale {
		ctx = metadata.AppendToOutgoingContext(ctx, call.HeaderConsistency, "stale")
	}
	var md metadata.MD
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts, grpc.Header(&md))...)
	w.note(md)
	return err
}

// note copies the position of a call's answer to the response. A read of several calls is
// as fresh as its first call, a write as its last.
func (w *writer) note(md metadata.MD) {
	if !reads(w.r) || w.Header().Get(call.HeaderIndex) == "" {
		CopyPosition(w, md)
	}
}

// CopyPosition copies the position of a call's answer to the headers of a response.
func CopyPosition(w http.ResponseWriter, md metadata.MD) {
	for _, name := range []string{call.HeaderIndex, call.HeaderLeader, call.HeaderLastContact} {
		if v := md.Get(name); len(v) > 0 {
			w.Header().Set(name, v[0])
		}
	}
}
