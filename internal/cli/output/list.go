package output

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/selector"
)

// PageSize is the number of resources per page, the maximum of the API.
const PageSize = 500

// Listing holds the flags of list commands.
type Listing struct {
	Flags
	Filter     string
	filterable bool // there is a --filter
	labels     string
	SortBy     string
	Limit      int
}

// Register adds the flags. label is true if the resources have labels.
func (l *Listing) Register(cmd *cobra.Command, filterExample string, label bool) {
	l.Flags.Register(cmd)
	l.filterable = filterExample != ""
	if l.filterable {
		cmd.Flags().StringVar(&l.Filter, "filter", "", "only those that match (AIP-160), e.g. '"+filterExample+"'")
		app.AllowEmpty(cmd.Flags(), "filter")
	}
	if l.filterable && label {
		RegisterLabels(cmd, &l.labels)
		app.AllowEmpty(cmd.Flags(), "labels")
		cmd.Flags().StringSliceVarP(&l.columns, "label-columns", "L", nil, "add a column for each of these labels")
	}
	cmd.Flags().StringVar(&l.SortBy, "sort-by", "",
		"sort by a field, such as created_at; -created_at reverses the order (see holdfast explain)")
	cmd.Flags().IntVar(&l.Limit, "limit", 0, "maximum number of rows (0: all)")
}

// RegisterLabels adds the flag of a label selector.
func RegisterLabels(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "labels", "l", "", "only those with these labels: "+selector.Help)
}

// Resolve adds the label selector to the filter.
func (l *Listing) Resolve() (err error) {
	l.Filter, err = WithLabels(l.Filter, l.labels)
	return err
}

// WithLabels returns a filter of the resources that match a filter and a label selector.
func WithLabels(filter, labels string) (string, error) {
	if labels == "" {
		return filter, nil
	}
	chosen, err := selector.Filter(labels)
	switch {
	case err != nil:
		return "", app.Usagef("--labels: %s", err)
	case strings.TrimSpace(filter) == "":
		return chosen, nil
	}
	return "(" + filter + ") AND " + chosen, nil
}

// hasLabels reports whether resources of a kind have labels.
func hasLabels[M proto.Message]() bool {
	_, ok := any(*new(M)).(labeled)
	return ok
}

// labeled is implemented by resources with labels.
type labeled interface{ GetLabels() map[string]string }

// sortOrder returns the order that --sort-by selects, or nil.
func sortOrder[M proto.Message](by string) (func(x, y M) int, error) {
	if by == "" {
		return nil, nil
	}
	name, reverse := strings.CutPrefix(by, "-")
	var empty M
	path, err := fields.Parse(empty.ProtoReflect().Descriptor(), name)
	if err != nil {
		return nil, app.Usagef("--sort-by: %s", err)
	}
	order, err := path.Order()
	if err != nil {
		return nil, app.Usagef("--sort-by: %s", err)
	}
	return func(x, y M) int {
		if reverse {
			x, y = y, x
		}
		return order(x.ProtoReflect(), y.ProtoReflect())
	}, nil
}

// Collect reads pages until the list or the limit ends. It reports whether there are more.
func Collect[T any](
	limit int, page func(size int32, token string) (items []T, next string, err error),
) (all []T, more bool, err error) {
	if limit < 0 {
		return nil, false, app.Usagef("--limit: %d: give 0 (all) or more", limit)
	}
	token := ""
	for {
		size := PageSize
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		items, next, err := page(int32(size), token)
		if err != nil {
			return nil, false, err
		}
		all = append(all, items...)
		if limit > 0 && len(all) >= limit {
			return all[:limit], next != "" || len(all) > limit, nil
		}
		if next == "" || next == token {
			return all, false, nil
		}
		token = next
	}
}

// noteMore notes on standard error that the list was cut.
func noteMore(a *app.App, l *Listing) {
	hint := "note: only the first %d are shown: raise --limit"
	if l.filterable {
		hint += ", or narrow it with --filter"
	}
	a.Note(hint, l.Limit)
}
