package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

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
