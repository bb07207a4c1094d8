package cli

import (
	"cmp"
	"context"
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
	plural               string // in messages; empty: that of the noun
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
					noteMore(a, &l)
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
		return items, more, failed(err, "list %s", cmp.Or(v.plural, v.kind.noun+"s"))
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
	kind                 kind[M]
	// get reads the resource; nil: as the kind does.
	get func(ctx context.Context, c *client.Client, id string) (M, error)
	// more returns the tables below that of the resource; nil: none.
	more  func(M) []*render.Table
	watch func(ctx context.Context, c *client.Client, o *output, id string) error
}

// getCommand returns the command. Callers may add flags.
func getCommand[M proto.Message](a *app, v getter[M]) *cobra.Command {
	var o output
	watch := false
	if v.get == nil {
		v.get = v.kind.get
	}
	cmd := &cobra.Command{
		Use:               "get " + v.kind.usage(),
		Aliases:           []string{"describe"},
		Args:              exactly(v.kind.usage()),
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
type each[M proto.Message] struct {
	verb, done           string // empty: "delete", "deleted"
	kind                 kind[M]
	short, long, example string
	do                   func(ctx context.Context, c *client.Client, id string) error
	unasked              bool // without confirmation
	// note returns more about the resources, for the confirmation; nil: nothing.
	note func([]M) string
	// label returns the name of the i-th resource in messages; nil: its id.
	label func(i int, id string) string
}

// find reads the named resources, and summarizes them on one line.
func (v each[M]) find(ctx context.Context, c *client.Client, args []string) (items []M, summary string, err error) {
	names := v.names(args)
	items = make([]M, len(args))
	for i, id := range args {
		if items[i], err = v.kind.get(ctx, c, id); err != nil {
			return nil, "", failed(err, "%s %s %s", v.verb, v.kind.noun, names[i])
		}
	}
	summary = v.verb + " " + v.kind.listed(names)
	if v.note != nil {
		summary += v.note(items)
	}
	return items, summary, nil
}

// names returns the arguments as they may be shown.
func (v each[M]) names(args []string) []string {
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
func eachCommand[M proto.Message](a *app, v each[M]) *cobra.Command {
	var ok consent
	v.verb, v.done = cmp.Or(v.verb, "delete"), cmp.Or(v.done, "deleted")
	cmd := &cobra.Command{
		Use:               v.verb + " " + v.kind.usage() + "...",
		Args:              atLeast(v.kind.usage()),
		ValidArgsFunction: a.completeAll(v.kind.names),
		Short:             v.short,
		Long:              v.long,
		Example:           v.example,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := v.names(args)
		if !v.unasked {
			if err := ok.precheck(a, cmd.CommandPath(), v.verb+" "+v.kind.listed(names)); err != nil {
				return err
			}
		}
		return a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if !v.unasked && !ok.given() {
				items, summary, err := v.find(ctx, c, args)
				switch {
				case err != nil:
					return err
				case ok.dryRun:
					a.note("dry run: %s", summary)
					return printList(a, &output{format: formatTable}, v.kind, items)
				}
				if err := ok.obtain(ctx, a, cmd.CommandPath(), summary, word(args)); err != nil {
					return err
				}
			}
			var errs []error
			for i, id := range args {
				if err := v.do(ctx, c, id); err != nil {
					errs = append(errs, failed(err, "%s %s %s", v.verb, v.kind.noun, names[i]))
					continue
				}
				a.note("%s %s %s", v.done, v.kind.noun, names[i])
			}
			return several(errs, len(args), v.verb+" "+v.kind.noun+"s")
		})(cmd, args)
	}
	if !v.unasked {
		ok.register(cmd, "show the "+v.kind.noun+"s, and "+v.verb+" none")
	}
	return cmd
}
