// Package openapi is the description of a peer's HTTP APIs, in OpenAPI 3.1, and serves it.
//
// It owns the file alone, and the APIs do not know it: a test of cmd/holdfast/serve sees to it that
// every route is in the file. The dashboard is for people, and is not.
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

// Register adds the route to a mux. Anybody may read it: it says what is in this repository.
func Register(m *auth.Mux) {
	m.HandleFunc(Pattern, auth.Public(), nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(file) // the client is gone: nobody to tell
	})
}
