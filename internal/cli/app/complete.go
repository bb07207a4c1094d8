package app

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

// Completer lists the possible values of an argument.
type Completer func(ctx context.Context, c *client.Client) []string

// Complete completes the arguments, one completer for each. A shell must not hang, so it uses
// the peer's own state, or returns nothing.
func (a *App) Complete(args ...Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) >= len(args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.Globals.Timeout = min(a.Globals.Timeout, 2*time.Second)
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

// CompleteAll completes any number of arguments and leaves out those already present.
func (a *App) CompleteAll(all Completer) cobra.CompletionFunc {
	one := a.Complete(all)
	return func(cmd *cobra.Command, given []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := one(cmd, nil, part)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(given, n) }), directive
	}
}

// CompleteFlag completes the value of a flag.
func (a *App) CompleteFlag(cmd *cobra.Command, flag string, values Completer) {
	one := a.Complete(values)
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		return one(cmd, nil, part)
	})
}

// OneOf makes a flag take one of some words, in any case, and completes them.
func OneOf(cmd *cobra.Command, flag string, words ...string) {
	f := cmd.Flags().Lookup(flag)
	f.Value = &oneOfValue{Value: f.Value, words: words}
	Choices(cmd, flag, words...)
}

// oneOfValue is the value of a flag of OneOf.
type oneOfValue struct {
	pflag.Value

	words []string
}

// Set implements pflag.Value.
func (v *oneOfValue) Set(text string) error {
	for _, word := range v.words {
		if EnumName(text) == EnumName(word) {
			return v.Value.Set(word)
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(v.words, ", "))
}

// Choices completes the value of a flag with fixed words.
func Choices(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
