package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
)

// each describes a command that does the same operation on every named resource, such as
// delete.
type each struct {
	verb, done           string // "delete", "deleted"
	arg                  string // in the usage line: IMAGE
	noun, plural         string // "image", "images"
	short, long, example string
	ids                  completer
	do                   func(ctx context.Context, c *client.Client, id string) error
	// label returns the name of the i-th resource in messages; nil: its id.
	label func(i int, id string) string
}

// eachCommand returns the command. It continues after a failure, prints each success, and
// returns the errors.
func eachCommand(a *app, v each) *cobra.Command {
	return &cobra.Command{
		Use:               v.verb + " " + v.arg + "...",
		Args:              atLeast(v.arg),
		ValidArgsFunction: a.completeAll(v.ids),
		Short:             v.short,
		Long:              v.long,
		Example:           v.example,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var errs []error
			for i, id := range args {
				name := id
				if v.label != nil {
					name = v.label(i, id)
				}
				if err := v.do(ctx, c, id); err != nil {
					errs = append(errs, failed(err, "%s %s %s", v.verb, v.noun, name))
					continue
				}
				a.note("%s %s %s", v.done, v.noun, name)
			}
			return several(errs, len(args), v.verb+" "+v.plural)
		}),
	}
}
