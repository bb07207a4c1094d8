// Package openapi describes a peer's HTTP APIs in OpenAPI 3.1, serves the descriptions, and has a
// page to explore them.
//
// It owns files only, and the APIs do not import it. openapi.yaml describes the APIs of the
// specifications; a test in cmd/holdfast/serve checks that it lists every route. v1.json describes
// holdfast.v1; a test of this package generates it from the .proto files. The dashboard is not
// described, because it is for people.
package openapi

import (
	"embed"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/server/auth"
)

//go:embed openapi.yaml
var file []byte

//go:embed v1.json
var v1 []byte

//go:embed docs
var docs embed.FS

// File returns the description of the APIs of the specifications, in YAML.
func File() []byte { return slices.Clone(file) }

// V1 returns the description of holdfast.v1, in JSON.
func V1() []byte { return slices.Clone(v1) }

// policy lets the page load only its own files and call only this peer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// Register adds the routes to a mux. They are public, because the files are public in this
// repository.
func Register(m *auth.Mux) {
	serve(m, "GET /openapi.yaml", "application/yaml", file)
	serve(m, "GET /openapi/v1.json", "application/json", v1)
	m.HandleFunc("GET /docs", auth.Public(), nil, http.RedirectHandler("docs/", http.StatusMovedPermanently).ServeHTTP)
	for name, kind := range map[string]string{
		"index.html": "text/html", "app.js": "text/javascript", "app.css": "text/css",
	} {
		b, err := docs.ReadFile("docs/" + name)
		if err != nil {
			panic(err) // the files are fixed at build time
		}
		serve(m, "GET /docs/"+strings.TrimSuffix(name, "index.html"), kind+"; charset=utf-8", b)
	}
}

// serve adds the route of a file. A path with a final slash is exact.
func serve(m *auth.Mux, pattern, kind string, b []byte) {
	if strings.HasSuffix(pattern, "/") {
		pattern += "{$}"
	}
	m.HandleFunc(pattern, auth.Public(), nil, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.Itoa(len(b)))
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(b) // an error means that the client has disconnected
	})
}
