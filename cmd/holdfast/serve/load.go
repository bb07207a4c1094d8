package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/internal/cli/flagfile"
)

// load completes the configuration from the environment and the file.
func (c *Config) load(fs *pflag.FlagSet, getenv func(string) (string, bool)) error {
	return flagfile.Load(fs, c.file(getenv))
}

// file describes the configuration file.
func (c *Config) file(getenv func(string) (string, bool)) flagfile.Config {
	return flagfile.Config{Path: c.File, Getenv: getenv, Groups: []string{"archive"},
		Fixed: map[string]map[string]string{"dev": {"data-dir": "", "log-store": "", "join": "", "bootstrap-expect": "1",
			"insecure": "true"}},
		Sections: map[string]flagfile.Section{
			"providers": func(n *yaml.Node) error {
				return flagfile.Decode[map[string]map[string]any](n, "providers", "a kind and options for each name", &c.Providers)
			},
			"oidc-issuers": func(n *yaml.Node) error { // whose access tokens are accepted (docs/sign-in.md)
				return flagfile.Decode[[]map[string]any](n, "oidc_issuers", "a list of issuers", &c.OIDCIssuers)
			},
		}}
}

// settings returns the effective settings of flags, environment and file. Keys that exist in
// the file only (providers, issuers) are omitted, because they may hold secrets. Keys and
// certificates appear as file names.
func settings(fs *pflag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			fmt.Fprintf(&b, "%s: %s\n", strings.ReplaceAll(f.Name, "-", "_"), f.Value.String())
		}
	})
	return b.String()
}
