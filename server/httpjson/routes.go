package httpjson

import (
	"context"
	"net/http"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Route is one route of an API.
type Route struct {
	Pattern string // such as POST /v2/pools/register
	RPC     string // the method whose access rule applies, such as PoolService/RegisterPool
	Handler http.HandlerFunc
}

// NewRoute returns a route.
func NewRoute(pattern, rpc string, h http.HandlerFunc) Route { return Route{pattern, rpc, h} }

// writer is the ResponseWriter of a route. It has the error writer of its API.
type writer struct {
	http.ResponseWriter
	r          *http.Request
	writeError auth.ErrorWriter
	stale      bool // calls read this peer's own state
}

// Unwrap supports http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Add adds routes to a mux, each with and without a trailing slash, because some clients in
// the field send one. writeError writes the errors: those of the gate, and 400 for an invalid
// consistency or a path that is not UTF-8, which gRPC cannot carry. Routes make their calls
// on a Conn.
func Add(m *auth.Mux, writeError auth.ErrorWriter, routes ...Route) {
	for _, r := range routes {
		rule := auth.SameAs("holdfast.v1." + r.RPC)
		handler := func(w http.ResponseWriter, req *http.Request) {
			if !utf8.ValidString(req.URL.Path) {
				writeError(w, req, http.StatusBadRequest, &auth.Error{
					Code:    codes.InvalidArgument,
					Reason:  "INVALID_PATH",
					Message: "the path is not UTF-8",
				})
				return
			}
			own := &writer{ResponseWriter: w, r: req, writeError: writeError}
			if !r.makesCalls() {
				r.Handler(own, req)
				return
			}
			var err *auth.Error
			if own.stale, err = wantsStale(req); err != nil {
				writeError(w, req, http.StatusBadRequest, err)
				return
			}
			r.Handler(own, req.WithContext(context.WithValue(req.Context(), writerKey{}, own)))
		}
		m.HandleFunc(r.Pattern, rule, writeError, handler)
		m.HandleFunc(r.Pattern+"/{$}", rule, writeError, handler)
	}
}
