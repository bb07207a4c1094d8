package app

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

// TestNamedContextHasPrecedence checks that the environment of one cluster is not used for another
// one that is named.
func TestNamedContextHasPrecedence(t *testing.T) {
	home := t.TempDir()
	prod := profile.Context{Addrs: []string{"10.0.0.1:7400"}, Token: "p", CA: "/prod/ca", Cert: "/prod/cert",
		Key: "/prod/key"}
	err := profile.Save(filepath.Join(home, ".config", "holdfast", "config.yaml"),
		profile.File{Current: "prod", Contexts: map[string]profile.Context{"prod": prod}})
	if err != nil {
		t.Fatal(err)
	}
	lab := profile.Context{Addrs: []string{"10.0.0.9:7400"}, Token: "l", CA: "/lab/ca", Cert: "/lab/cert", Key: "/lab/key"}
	env := map[string]string{"HOME": home, "HOLDFAST_ADDR": "10.0.0.9:7400", "HOLDFAST_TOKEN": "l",
		"HOLDFAST_CA": "/lab/ca", "HOLDFAST_CERT": "/lab/cert", "HOLDFAST_KEY": "/lab/key"}
	over := prod
	over.Addrs, over.Token = []string{"10.0.0.2:7400"}, "f"
	for name, tt := range map[string]struct {
		globals Globals
		context string // in the environment
		want    profile.Context
	}{
		"the environment":                {Globals{}, "", lab},
		"a context of the environment":   {Globals{}, "prod", lab},
		"named context":                  {Globals{context: "prod"}, "", prod},
		"named, and another in the rest": {Globals{context: "prod"}, "nowhere", prod},
		"named, and other flags":         {Globals{context: "prod", Addr: "10.0.0.2:7400", Token: "f"}, "", over},
	} {
		a := &App{Globals: tt.globals, Streams: Streams{Getenv: func(k string) string {
			if k == "HOLDFAST_CONTEXT" {
				return tt.context
			}
			return env[k]
		}}}
		got, err := a.Target()
		if diff := cmp.Diff(tt.want, got.Context); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
