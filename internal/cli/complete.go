package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/client"
)

// completer lists the possible values of an argument.
type completer func(ctx context.Context, c *client.Client) []string

// complete completes the arguments, one completer for each. A shell must not hang, so it uses
// the peer's own state, or returns nothing.
func (a *app) complete(args ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) >= len(args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.globals.timeout = min(a.globals.timeout, 2*time.Second)
		c, err := a.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer func() { _ = c.Close() }()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx = client.WithConsistency(ctx, client.Consistency{Stale: true})
		return args[len(given)](ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeAll completes any number of arguments and leaves out those already present.
func (a *app) completeAll(all completer) cobra.CompletionFunc {
	one := a.complete(all)
	return func(cmd *cobra.Command, given []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := one(cmd, nil, part)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(given, n) }), directive
	}
}

// completeFlag completes the value of a flag.
func (a *app) completeFlag(cmd *cobra.Command, flag string, values completer) {
	one := a.complete(values)
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		return one(cmd, nil, part)
	})
}

// oneOf makes a flag take one of some words, in any case, and completes them.
func oneOf(cmd *cobra.Command, flag string, words ...string) {
	f := cmd.Flags().Lookup(flag)
	f.Value = &oneOfValue{Value: f.Value, words: words}
	choices(cmd, flag, words...)
}

// oneOfValue is the value of a flag of oneOf.
type oneOfValue struct {
	pflag.Value

	words []string
}

// Set implements pflag.Value.
func (v *oneOfValue) Set(text string) error {
	for _, word := range v.words {
		if enumName(text) == enumName(word) {
			return v.Value.Set(word)
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(v.words, ", "))
}

// choices completes the value of a flag with fixed words.
func choices(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
