package output

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// Lister describes a command that lists resources of one kind.
type Lister[M proto.Message] struct {
	Use                  string // empty: list
	Short, Long, Example string
	Kind                 Kind[M]
	Plural               string // in messages; empty: that of the noun
	Filter               string // an example; empty where the API has no filter
	Args                 []string
	IDs                  app.Completer // of the arguments, where there are any
	Page                 pager[M]      // nil: that of the kind
	// Order is the order of the list unless --sort-by is set; nil: the order of the API.
	Order func(x, y M) int
	Empty string // what to note when there is none; empty for nothing
	// Watch follows changes instead of listing, with -w; nil if the kind cannot be followed.
	Watch func(ctx context.Context, c *client.Client, l *Listing) error
}

// Query is the request of one page.
type Query struct {
	Args   []string
	Filter string
	Size   int32
	Token  string
}

// ListCommand returns the command. Callers may add flags.
func ListCommand[M proto.Message](a *app.App, v Lister[M]) *cobra.Command {
	var l Listing
	watch := false
	if v.Page == nil {
		v.Page = v.Kind.Page
	}
	cmd := &cobra.Command{
		Use: cmp.Or(v.Use, "list"), Args: app.Exactly(v.Args...), Short: v.Short, Long: v.Long, Example: v.Example,
		RunE: func(cmd *cobra.Command, args []string) error {
			order, err := sortOrder[M](l.SortBy)
			switch err = cmp.Or(err, l.Resolve()); {
			case err != nil:
				return err
			case order == nil:
				order = v.Order
			case watch:
				return app.Usagef("%s: a watch prints changes in their order: omit --sort-by or --watch", cmd.CommandPath())
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				if watch {
					return v.Watch(ctx, c, &l)
				}
				items, more, err := v.all(ctx, c, &l, args, order)
				if err != nil {
					return err
				}
				if more {
					noteMore(a, &l)
				}
				if len(items) == 0 && v.Empty != "" && l.Table() {
					a.Note("%s", v.Empty)
					return nil
				}
				return PrintList(a, &l.Flags, v.Kind, items)
			})(cmd, args)
		},
	}
	if v.Use == "" {
		cmd.Aliases = []string{"ls"}
	}
	if v.IDs != nil {
		cmd.ValidArgsFunction = a.Complete(v.IDs)
	}
	l.Register(cmd, v.Filter, hasLabels[M]())
	completeFields(cmd, (*new(M)).ProtoReflect().Descriptor())
	if v.Watch != nil {
		cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep printing changes until Ctrl-C")
	}
	return cmd
}

// all reads the requested number of resources in the requested order. A sorted list is read
// completely first: the limit applies to the output.
func (v Lister[M]) all(
	ctx context.Context, c *client.Client, l *Listing, args []string, order func(x, y M) int,
) ([]M, bool, error) {
	limit := l.Limit
	if order != nil {
		limit = min(limit, 0)
	}
	items, more, err := Collect(limit, func(size int32, token string) ([]M, string, error) {
		return v.Page(ctx, c, Query{Args: args, Filter: l.Filter, Size: size, Token: token})
	})
	if err != nil || order == nil {
		return items, more, app.Failed(err, "list %s", cmp.Or(v.Plural, v.Kind.Noun+"s"))
	}
	slices.SortStableFunc(items, order)
	if l.Limit > 0 && len(items) > l.Limit {
		return items[:l.Limit], true, nil
	}
	return items, false, nil
}

// Getter describes a command that shows one resource.
type Getter[M proto.Message] struct {
	Short, Long, Example string
	Kind                 Kind[M]
	// Get reads the resource; nil: as the kind does.
	Get func(ctx context.Context, c *client.Client, id string) (M, error)
	// More returns the tables below that of the resource; nil: none.
	More  func(M) []*render.Table
	Watch func(ctx context.Context, c *client.Client, o *Flags, id string) error
}

// GetCommand returns the command. Callers may add flags.
func GetCommand[M proto.Message](a *app.App, v Getter[M]) *cobra.Command {
	var o Flags
	watch := false
	if v.Get == nil {
		v.Get = v.Kind.Get
	}
	cmd := &cobra.Command{
		Use:               "get " + v.Kind.Usage(),
		Aliases:           []string{"describe"},
		Args:              app.Exactly(v.Kind.Usage()),
		ValidArgsFunction: a.Complete(v.Kind.Names),
		Short:             v.Short,
		Long:              v.Long,
		Example:           v.Example,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			if watch {
				return v.Watch(ctx, c, &o, args[0])
			}
			m, err := v.Get(ctx, c, args[0])
			if err != nil {
				return app.Failed(err, "get %s %s", v.Kind.Noun, args[0])
			}
			if v.More == nil {
				return PrintOne(a, &o, v.Kind, m)
			}
			return PrintOne(a, &o, v.Kind, m, v.More(m)...)
		}),
	}
	o.Register(cmd)
	if v.Watch != nil {
		cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow changes (see: holdfast "+v.Kind.Noun+" watch --help)")
	}
	return cmd
}

// Each describes a command that does the same operation on every named resource, such as
// delete.
type Each[M proto.Message] struct {
	Verb, Done           string // empty: "delete", "deleted"
	Kind                 Kind[M]
	Short, Long, Example string
	Do                   func(ctx context.Context, c *client.Client, id string) error
	Unasked              bool // without confirmation
	// Note returns more about the resources, for the confirmation; nil: nothing.
	Note func([]M) string
	// Label returns the name of the i-th resource in messages; nil: its id.
	Label func(i int, id string) string
}

// find reads the named resources, and summarizes them on one line.
func (v Each[M]) find(ctx context.Context, c *client.Client, args []string) (items []M, summary string, err error) {
	names := v.names(args)
	items = make([]M, len(args))
	for i, id := range args {
		if items[i], err = v.Kind.Get(ctx, c, id); err != nil {
			return nil, "", app.Failed(err, "%s %s %s", v.Verb, v.Kind.Noun, names[i])
		}
	}
	summary = v.Verb + " " + v.Kind.listed(names)
	if v.Note != nil {
		summary += v.Note(items)
	}
	return items, summary, nil
}

// names returns the arguments as they may be shown.
func (v Each[M]) names(args []string) []string {
	names := slices.Clone(args)
	for i, id := range args {
		if v.Label != nil {
			names[i] = v.Label(i, id)
		}
	}
	return names
}

// EachCommand returns the command. It continues after a failure, prints each success, and
// returns the errors.
func EachCommand[M proto.Message](a *app.App, v Each[M]) *cobra.Command {
	var ok prompt.Consent
	v.Verb, v.Done = cmp.Or(v.Verb, "delete"), cmp.Or(v.Done, "deleted")
	cmd := &cobra.Command{
		Use:               v.Verb + " " + v.Kind.Usage() + "...",
		Args:              app.AtLeast(v.Kind.Usage()),
		ValidArgsFunction: a.CompleteAll(v.Kind.Names),
		Short:             v.Short,
		Long:              v.Long,
		Example:           v.Example,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := v.names(args)
		if !v.Unasked {
			if err := ok.Precheck(a, cmd.CommandPath(), v.Verb+" "+v.Kind.listed(names)); err != nil {
				return err
			}
		}
		return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			if !v.Unasked && !ok.Given() {
				items, summary, err := v.find(ctx, c, args)
				switch {
				case err != nil:
					return err
				case ok.DryRun:
					a.Note("dry run: %s", summary)
					return PrintList(a, &Flags{Format: FormatTable}, v.Kind, items)
				}
				if err := ok.Obtain(ctx, a, cmd.CommandPath(), summary, prompt.Word(args)); err != nil {
					return err
				}
			}
			var errs []error
			for i, id := range args {
				if err := v.Do(ctx, c, id); err != nil {
					errs = append(errs, app.Failed(err, "%s %s %s", v.Verb, v.Kind.Noun, names[i]))
					continue
				}
				a.Note("%s %s %s", v.Done, v.Kind.Noun, names[i])
			}
			return app.Several(errs, len(args), v.Verb+" "+v.Kind.Noun+"s")
		})(cmd, args)
	}
	if !v.Unasked {
		ok.Register(cmd, "show the "+v.Kind.Noun+"s, and "+v.Verb+" none")
	}
	return cmd
}
