package auth

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
)

// Otherwise has requests under a prefix ("/v2/") that no route takes answered in the words of the
// API that it belongs to, and not by a line of text: 405 with the methods that the path does have,
// else 404. That tells nothing that the documents do not, so it asks for no token.
func (m *Mux) Otherwise(prefix string, words Words) {
	lost := func(w http.ResponseWriter, r *http.Request) {
		h, _ := m.twin.Handler(r)
		v := &verdict{header: http.Header{}}
		h.ServeHTTP(v, r)
		status, err := http.StatusNotFound, &Error{Code: codes.NotFound, Reason: "NO_SUCH_ROUTE", Message: "Not Found"}
		if v.status == http.StatusMethodNotAllowed {
			status, err = v.status, &Error{Code: codes.Unimplemented, Reason: "NO_SUCH_METHOD", Message: "Method Not Allowed"}
			w.Header()["Allow"] = v.header["Allow"]
		}
		words(w, r, status, err)
	}
	m.mux.HandleFunc(prefix, lost)
	if path := strings.TrimSuffix(prefix, "/"); path != "" {
		m.mux.HandleFunc(path, lost) // else it would be redirected
	}
}

// verdict takes down what http.ServeMux would have answered.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) Write(b []byte) (int, error) { return len(b), nil }
func (v *verdict) WriteHeader(status int)      { v.status = status }
