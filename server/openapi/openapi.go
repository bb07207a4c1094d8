// Package openapi describes a peer's HTTP APIs in OpenAPI 3.1 and serves the description.
//
// It owns the file only, and the APIs do not import it. A test in cmd/holdfast/serve checks
// that the file lists every route. The dashboard is not described, because it is for
// people.
package openapi

import (
	_ "embed" // for openapi.yaml
	"net/http"
	"slices"

	"github.com/holdfast-metal/holdfast/server/auth"
)

//go:embed openapi.yaml
var file []byte

// Pattern is the route of the file.
const Pattern = "GET /openapi.yaml"

// File returns the file.
func File() []byte { return slices.Clone(file) }

// Register adds the route to a mux. It is public, because the file is public in this
// repository.
func Register(m *auth.Mux) {
	m.HandleFunc(Pattern, auth.Public(), nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(file) // the client has disconnected
	})
}
