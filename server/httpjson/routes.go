package httpjson

import (
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
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Add adds routes to a mux, each with a slash at its end too: some clients in the field send one. Words are the answers of the gate,
// and of a path that is no UTF-8 (400): what a message of gRPC cannot carry must not come into one.
func Add(m *auth.Mux, words auth.Words, routes ...Route) {
	for _, r := range routes {
		rule := auth.SameAs("holdfast.v1." + r.RPC)
		handler := func(w http.ResponseWriter, req *http.Request) {
			if !utf8.ValidString(req.URL.Path) {
				words(w, req, http.StatusBadRequest, &auth.Error{Code: codes.InvalidArgument, Reason: "INVALID_PATH", Message: "the path is not UTF-8"})
				return
			}
			r.Handler(&writer{w, req, words}, req)
		}
		m.HandleFunc(r.Pattern, rule, words, handler)
		m.HandleFunc(r.Pattern+"/{$}", rule, words, handler)
	}
}
