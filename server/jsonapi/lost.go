package jsonapi

import (
	"net/http"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/misfit"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// lost returns the writer of the answer to a request that matches no route: what was meant, the
// methods of the path, and where the routes are listed.
func lost(routes []Route) auth.ErrorWriter {
	return func(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
		said := *err
		said.Message = "there is no route " + r.Method + " " + misfit.Quote(r.URL.Path)
		if code == http.StatusMethodNotAllowed {
			said.Message += ": the path has " + strings.Join(w.Header()["Allow"], ", ")
		} else if like := likely(routes, r.URL.Path); like != "" {
			said.Message += ": did you mean " + like + "?"
		}
		said.Message += ": see /docs"
		writeError(w, r, code, &said)
	}
}

// likely returns the path that a mistyped one was meant to be, or "".
func likely(routes []Route, path string) string {
	if len(path) > 200 {
		return ""
	}
	written := strings.Split(strings.TrimSuffix(path, "/"), "/")
	var paths []string
	for _, r := range routes {
		segments := strings.Split(r.Path, "/")
		if len(segments) == len(written)+1 && fits(segments[2:], written[1:]) {
			return "/v1" + strings.Join(written, "/") // without the version
		}
		if len(segments) != len(written) {
			continue
		}
		for i, s := range segments {
			if strings.HasPrefix(s, "{") {
				segments[i] = written[i]
			}
		}
		paths = append(paths, strings.Join(segments, "/"))
	}
	return nearest.Of(strings.Join(written, "/"), paths)
}

// fits reports whether written segments are those of a route.
func fits(segments, written []string) bool {
	for i, s := range segments {
		if s != written[i] && (!strings.HasPrefix(s, "{") || written[i] == "") {
			return false
		}
	}
	return len(written) > 0 && written[0] == segments[0]
}
