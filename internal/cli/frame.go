package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// lister describes a command that lists resources of one kind.
type lister[M proto.Message] struct {
	use                  string // empty: list
	short, long, example string
	kind                 kind[M]
	plural               string // in messages: "images"
	filter               string // an example; empty where the API has no filter
	args                 []string
	ids                  completer // of the arguments, where there are any
	page                 pager[M]  // nil: that of the kind
	// order is the order of the list unless --sort-by is set; nil: the order of the API.
	order func(x, y M) int
	empty string // what to note when there is none; empty for nothing
	// watch follows changes instead of listing, with -w; nil if the kind cannot be followed.
	watch func(ctx context.Context, c *client.Client, l *listing) error
}

// query is the request of one page.
type query struct {
	args   []string
	filter string
	size   int32
	token  string
}

// listCommand returns the command. Callers may add flags.
func listCommand[M proto.Message](a *app, v lister[M]) *cobra.Command {
	var l listing
	watch := false
	if v.page == nil {
		v.page = v.kind.page
	}
	cmd := &cobra.Command{
		Use: cmp.Or(v.use, "list"), Args: exactly(v.args...), Short: v.short, Long: v.long, Example: v.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			order, err := sortOrder[M](l.sortBy)
			switch err = cmp.Or(err, l.resolve()); {
			case err != nil:
				return err
			case order == nil:
				order = v.order
			case watch:
				return usagef("%s: a watch prints changes in their order: omit --sort-by or --watch", cmd.CommandPath())
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				if watch {
					return v.watch(ctx, c, &l)
				}
				items, more, err := v.all(ctx, c, &l, args, order)
				if err != nil {
					return err
				}
				if more {
					a.noteMore(&l)
				}
				if len(items) == 0 && v.empty != "" && l.table() {
					a.note("%s", v.empty)
					return nil
				}
				return printList(a, &l.output, v.kind, items)
			})(cmd, args)
		},
	}
	if v.use == "" {
		cmd.Aliases = []string{"ls"}
	}
	if v.ids != nil {
		cmd.ValidArgsFunction = a.complete(v.ids)
	}
	l.register(cmd, v.filter, hasLabels[M]())
	completeFields(cmd, (*new(M)).ProtoReflect().Descriptor())
	if v.watch != nil {
		cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep printing changes until Ctrl-C")
	}
	return cmd
}

// all reads the requested number of resources in the requested order. A sorted list is read
// completely first: the limit applies to the output.
func (v lister[M]) all(
	ctx context.Context, c *client.Client, l *listing, args []string, order func(x, y M) int,
) ([]M, bool, error) {
	limit := l.limit
	if order != nil {
		limit = min(limit, 0)
	}
	items, more, err := collect(limit, func(size int32, token string) ([]M, string, error) {
		return v.page(ctx, c, query{args: args, filter: l.filter, size: size, token: token})
	})
	if err != nil || order == nil {
		return items, more, failed(err, "list %s", v.plural)
	}
	slices.SortStableFunc(items, order)
	if l.limit > 0 && len(items) > l.limit {
		return items[:l.limit], true, nil
	}
	return items, false, nil
}

// getter describes a command that shows one resource.
type getter[M proto.Message] struct {
	short, long, example string
	arg                  string // in the usage line: IMAGE
	kind                 kind[M]
	get                  func(ctx context.Context, c *client.Client, id string) (M, error)
	more                 func(M) []*render.Table // what a table shows below; nil for nothing
	watch                func(ctx context.Context, c *client.Client, o *output, id string) error
}

func getCommand[M proto.Message](a *app, v getter[M]) *cobra.Command {
	var o output
	watch := false
	cmd := &cobra.Command{
		Use:               "get " + v.arg,
		Aliases:           []string{"describe"},
		Args:              exactly(v.arg),
		ValidArgsFunction: a.complete(v.kind.names),
		Short:             v.short,
		Long:              v.long,
		Example:           v.example,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if watch {
				return v.watch(ctx, c, &o, args[0])
			}
			m, err := v.get(ctx, c, args[0])
			if err != nil {
				return failed(err, "get %s %s", v.kind.noun, args[0])
			}
			if v.more == nil {
				return printOne(a, &o, v.kind, m)
			}
			return printOne(a, &o, v.kind, m, v.more(m)...)
		}),
	}
	o.register(cmd)
	if v.watch != nil {
		cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow changes (see: holdfast "+v.kind.noun+" watch --help)")
	}
	return cmd
}

// each describes a command that does the same operation on every named resource, such as
// delete.
type each struct {
	verb, done           string // "delete", "deleted"
	arg                  string // in the usage line: IMAGE
	noun, plural         string // "image", "images"
	short, long, example string
	ids                  completer
	do                   func(ctx context.Context, c *client.Client, id string) error
	// look reads the named resources for --dry-run and the confirmation; nil: the command asks for
	// none.
	look func(ctx context.Context, c *client.Client, ids []string) (found, error)
	// label returns the name of the i-th resource in messages; nil: its id.
	label func(i int, id string) string
}

// found describes resources that a command would destroy.
type found struct {
	summary string             // in one line
	print   func(a *app) error // prints them as a table
}

// finder returns a function that reads the named resources of a kind. note adds to the summary; it
// may be nil.
func finder[M proto.Message](k kind[M], plural string, get func(context.Context, *client.Client, string) (M, error),
	note func([]M) string) func(context.Context, *client.Client, []string) (found, error) {
	return func(ctx context.Context, c *client.Client, ids []string) (found, error) {
		items := make([]M, len(ids))
		for i, id := range ids {
			var err error
			if items[i], err = get(ctx, c, id); err != nil {
				return found{}, failed(err, "get %s %s", k.noun, id)
			}
		}
		summary := listed(k.noun, plural, ids)
		if note != nil {
			summary += note(items)
		}
		return found{summary, func(a *app) error { return printList(a, &output{format: formatTable}, k, items) }}, nil
	}
}

// listed returns the name of one resource, or the number of several.
func listed(noun, plural string, ids []string) string {
	if len(ids) == 1 {
		return noun + " " + ids[0]
	}
	return fmt.Sprintf("%d %s", len(ids), plural)
}

// names returns the arguments as they may be shown.
func (v each) names(args []string) []string {
	names := slices.Clone(args)
	for i, id := range args {
		if v.label != nil {
			names[i] = v.label(i, id)
		}
	}
	return names
}

// eachCommand returns the command. It continues after a failure, prints each success, and
// returns the errors.
func eachCommand(a *app, v each) *cobra.Command {
	var ok consent
	cmd := &cobra.Command{
		Use:               v.verb + " " + v.arg + "...",
		Args:              atLeast(v.arg),
		ValidArgsFunction: a.completeAll(v.ids),
		Short:             v.short,
		Long:              v.long,
		Example:           v.example,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if v.look != nil {
			if err := ok.precheck(a, cmd.CommandPath(), v.verb+" "+listed(v.noun, v.plural, v.names(args))); err != nil {
				return err
			}
		}
		return a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if v.look != nil && !ok.given() {
				seen, err := v.look(ctx, c, args)
				switch {
				case err != nil:
					return err
				case ok.dryRun:
					a.note("dry run: %s %s", v.verb, seen.summary)
					return seen.print(a)
				}
				err = ok.obtain(ctx, a, cmd.CommandPath(), v.verb+" "+seen.summary, word(args))
				if err != nil {
					return err
				}
			}
			var errs []error
			for i, id := range args {
				name := v.names(args)[i]
				if err := v.do(ctx, c, id); err != nil {
					errs = append(errs, failed(err, "%s %s %s", v.verb, v.noun, name))
					continue
				}
				a.note("%s %s %s", v.done, v.noun, name)
			}
			return several(errs, len(args), v.verb+" "+v.plural)
		})(cmd, args)
	}
	if v.look != nil {
		ok.register(cmd, "show the "+v.plural+", and "+v.verb+" none")
	}
	return cmd
}
