package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// settings writes down what a peer was told, flags, environment and file together. What is in the
// file alone (providers, issuers) is left out: it may hold secrets. Keys and certificates are named
// by their files.
func settings(fs *pflag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			fmt.Fprintf(&b, "%s: %s\n", strings.ReplaceAll(f.Name, "-", "_"), f.Value.String())
		}
	})
	return b.String()
}
