package httpjson

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// askerKey is where a context has the writer of the request that it belongs to.
type askerKey struct{}

// asks reports whether a request may be answered from this peer's own state: ?consistency=stale of
// one that reads (docs/concepts.md).
func asks(r *http.Request) (stale bool, err *auth.Error) {
	if !reads(r) || r.URL.RawQuery == "" {
		return false, nil
	}
	switch v := r.URL.Query().Get("consistency"); v {
	case "stale":
		return true, nil
	case "linearizable", "":
		return false, nil
	default:
		return false, &auth.Error{Code: codes.InvalidArgument, Reason: "INVALID_CONSISTENCY", Message: "consistency is " + strconv.Quote(v) + ": want stale or linearizable"}
	}
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// makesCalls reports whether a route is served by calls. Heartbeats are not: they go the short way
// (server.Heartbeats).
func (r *Route) makesCalls() bool { return !strings.HasPrefix(r.RPC, "HeartbeatService/") }

// Conn returns the connection that routes make their calls on. A call asks for what the request
// asks for, and the answer to the request says of this peer what that of the call does.
func Conn(rpc grpc.ClientConnInterface) grpc.ClientConnInterface { return conn{rpc} }

type conn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	w, ok := ctx.Value(askerKey{}).(*writer)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if w.stale {
		ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-consistency", "stale")
	}
	var md metadata.MD
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts, grpc.Header(&md))...)
	w.note(md)
	return err
}

// note passes the position of an answer on. A list that took several calls is as new as the first
// of them, a change as the last.
func (w *writer) note(md metadata.MD) {
	h := w.Header()
	if reads(w.r) && h.Get("holdfast-index") != "" {
		return
	}
	for _, name := range []string{"holdfast-index", "holdfast-leader", "holdfast-last-contact-ms"} {
		if v := md.Get(name); len(v) > 0 {
			h.Set(name, v[0])
		}
	}
}
