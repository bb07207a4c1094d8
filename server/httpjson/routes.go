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
	Pattern string // POST /v2/pools/register
	RPC     string // whose rule it has: PoolService/RegisterPool
	Handler http.HandlerFunc
}

// writer is where a route's answer goes. It knows how the API words what has gone wrong with that.
type writer struct {
	http.ResponseWriter
	r     *http.Request
	words auth.Words
	stale bool // calls take this peer's own state
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Add adds routes to a mux, each with a slash at its end too: some clients in the field send one.
// Words are the answers of the gate, of a path that is no UTF-8 (400), which must not come into a
// message of gRPC, and of a consistency that is none (400). The routes' calls are made on a Conn.
func Add(m *auth.Mux, words auth.Words, routes ...Route) {
	for _, r := range routes {
		rule := auth.SameAs("holdfast.v1." + r.RPC)
		handler := func(w http.ResponseWriter, req *http.Request) {
			if !utf8.ValidString(req.URL.Path) {
				words(w, req, http.StatusBadRequest, &auth.Error{Code: codes.InvalidArgument, Reason: "INVALID_PATH", Message: "the path is not UTF-8"})
				return
			}
			own := &writer{ResponseWriter: w, r: req, words: words}
			if !r.makesCalls() {
				r.Handler(own, req)
				return
			}
			var err *auth.Error
			if own.stale, err = asks(req); err != nil {
				words(w, req, http.StatusBadRequest, err)
				return
			}
			r.Handler(own, req.WithContext(context.WithValue(req.Context(), askerKey{}, own)))
		}
		m.HandleFunc(r.Pattern, rule, words, handler)
		m.HandleFunc(r.Pattern+"/{$}", rule, words, handler)
	}
}
