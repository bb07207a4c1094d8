package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sameFlag lets --filter and --selector stand for each other in all commands that have one of them:
// both take a filter.
func sameFlag(cmd *cobra.Command) {
	for _, name := range [][2]string{{"filter", "selector"}, {"selector", "filter"}} {
		has, other := name[0], name[1]
		if cmd.Flags().Lookup(has) == nil || cmd.Flags().Lookup(other) != nil {
			continue
		}
		cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, written string) pflag.NormalizedName {
			if written == other {
				written = has
			}
			return pflag.NormalizedName(written)
		})
	}
	for _, sub := range cmd.Commands() {
		sameFlag(sub)
	}
}
