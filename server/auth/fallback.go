package auth

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
)

// Fallback sets the response to requests under a prefix ("/v2/") that match no route. It
// is in the format of that API instead of a line of text: 405 with the methods of the
// path, or 404. The response contains nothing that the documentation does not, so it
// needs no token.
func (m *Mux) Fallback(prefix string, writeError ErrorWriter) {
	notFound := func(w http.ResponseWriter, r *http.Request) {
		h, _ := m.bare.Handler(r)
		v := &probedResponse{header: http.Header{}}
		h.ServeHTTP(v, r)
		status, err := http.StatusNotFound, &Error{Code: codes.NotFound, Reason: "NO_SUCH_ROUTE", Message: "Not Found"}
		if v.status == http.StatusMethodNotAllowed {
			status = v.status
			err = &Error{Code: codes.Unimplemented, Reason: "NO_SUCH_METHOD", Message: "Method Not Allowed"}
			w.Header()["Allow"] = v.header["Allow"]
		}
		writeError(w, r, status, err)
	}
	m.mux.HandleFunc(prefix, notFound)
	if path := strings.TrimSuffix(prefix, "/"); path != "" {
		m.mux.HandleFunc(path, notFound) // otherwise the mux would redirect it
	}
}

// probedResponse records the response of an http.ServeMux.
type probedResponse struct {
	header http.Header
	status int
}

func (v *probedResponse) Header() http.Header         { return v.header }
func (v *probedResponse) Write(b []byte) (int, error) { return len(b), nil }
func (v *probedResponse) WriteHeader(status int)      { v.status = status }
