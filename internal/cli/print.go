package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/expression"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/secrets"
)

// kind describes one kind of resource: how it is read, named and printed.
type kind[M proto.Message] struct {
	noun   string // in messages, and the command that is about them: machine
	arg    string // in usage lines; empty: the noun in capitals
	list   string // the key of a list of them
	name   func(M) string
	header []string
	wide   []string                       // more columns for -o wide
	row    func(m M, now time.Time) []any // the cells of all columns, as for render.Table
	reveal bool                           // it is there to show a secret, this once
	page   pager[M]
	get    func(ctx context.Context, c *client.Client, id string) (M, error)
	offer  string // filter of the names that a shell completes; empty: all
}

// pager requests one page of a list, with the filter and the arguments of the command line.
type pager[M proto.Message] func(ctx context.Context, c *client.Client, q query) (items []M, next string, err error)

// usage returns the argument of commands about one resource.
func (k kind[M]) usage() string { return cmp.Or(k.arg, strings.ToUpper(k.noun)) }

// listed returns the name of one resource, or the number of several.
func (k kind[M]) listed(names []string) string {
	if len(names) == 1 {
		return k.noun + " " + names[0]
	}
	return describe.Number(len(names), k.noun)
}

// all reads the resources that match a filter, at most limit of them; 0: all.
func (k kind[M]) all(ctx context.Context, c *client.Client, filter string, limit int) ([]M, error) {
	items, _, err := collect(limit, func(size int32, token string) ([]M, string, error) {
		return k.page(ctx, c, query{filter: filter, size: size, token: token})
	})
	return items, err
}

// first reads at most limit resources, and reports whether there are more.
func (k kind[M]) first(ctx context.Context, c *client.Client, limit int) ([]M, bool, error) {
	return collect(limit, func(size int32, token string) ([]M, string, error) {
		return k.page(ctx, c, query{size: size, token: token})
	})
}

// names completes the names of resources, from the first page.
func (k kind[M]) names(ctx context.Context, c *client.Client) []string {
	items, _, err := k.page(ctx, c, query{filter: k.offer, size: pageSize})
	if err != nil {
		return nil
	}
	return mapped(items, k.name)
}

// shown returns a message without fields that hold a secret.
func (k kind[M]) shown(m M) M {
	if k.reveal {
		return m
	}
	return secrets.Redact(m)
}

// newTable returns an empty table with the columns that the flags select.
func (k kind[M]) newTable(o *output) *render.Table {
	header := slices.Clone(k.header)
	if o.wide() {
		header = append(header, k.wide...)
	}
	for _, label := range o.columns {
		header = append(header, strings.ToUpper(label))
	}
	return render.NewTable(header...)
}

// cells returns the cells of a row of newTable.
func (k kind[M]) cells(o *output, m M, now time.Time) []any {
	cells := k.row(m, now)
	if !o.wide() {
		cells = cells[:min(len(cells), len(k.header))]
	}
	if with, ok := any(m).(labeled); ok {
		for _, label := range o.columns {
			cells = append(cells, with.GetLabels()[label])
		}
	}
	return cells
}

// printList prints resources as a list, even a single one.
func printList[M proto.Message](a *app, o *output, k kind[M], items []M) error {
	if err := o.check(shapeOf[M](), k.list); err != nil {
		return err
	}
	switch {
	case o.format == formatName:
		return printNames(a, k, items)
	case o.custom != nil:
		return printCustom(a, o, k, items)
	case !o.table():
		raw, err := manifest.List(k.list, mapped(items, k.shown))
		if err != nil {
			return err
		}
		return printDocument(a, o, raw)
	}
	t := k.newTable(o)
	now := a.Now()
	for _, m := range items {
		t.Row(k.cells(o, m, now)...)
	}
	return printTable(a, o, t)
}

// printOne prints one resource. more adds text below the row of the table.
func printOne[M proto.Message](a *app, o *output, k kind[M], m M, more ...*render.Table) error {
	if err := o.check(shapeOf[M](), ""); err != nil {
		return err
	}
	switch {
	case o.format == formatName:
		return printNames(a, k, []M{m})
	case o.custom != nil:
		return printCustom(a, o, k, []M{m})
	case !o.table():
		raw, err := manifest.JSON(k.shown(m))
		if err != nil {
			return err
		}
		return printDocument(a, o, raw)
	}
	if err := printList(a, o, k, []M{m}); err != nil {
		return err
	}
	for _, t := range more {
		if t.Len() == 0 {
			continue
		}
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
		if err := printTable(a, o, t); err != nil {
			return err
		}
	}
	return nil
}

// printNames prints the name of each resource on a line.
func printNames[M proto.Message](a *app, k kind[M], items []M) error {
	for _, m := range items {
		if _, err := fmt.Fprintln(a.Out, k.name(m)); err != nil {
			return err
		}
	}
	return nil
}

// printStream prints one of a stream of resources: JSON on one line, YAML as a document, the
// text of an expression on one line.
func printStream[M proto.Message](a *app, o *output, m M) error {
	if err := o.check(shapeOf[M](), ""); err != nil {
		return err
	}
	raw, err := manifest.JSON(secrets.Redact(m))
	if err != nil {
		return err
	}
	return printStreamed(a, o, raw)
}

// printStreamed prints the JSON of one of a stream of resources.
func printStreamed(a *app, o *output, raw []byte) error {
	switch {
	case o.format == formatJSON:
		_, err := a.Out.Write(append(raw, '\n'))
		return err
	case o.expr != nil, o.custom != nil:
		return printDocument(a, o, raw)
	}
	if _, err := fmt.Fprintln(a.Out, "---"); err != nil {
		return err
	}
	return printDocument(a, o, raw)
}

// printDocument prints JSON as indented JSON, as YAML, as custom columns, or through an expression.
func printDocument(a *app, o *output, raw []byte) error {
	if o.custom != nil {
		cells, err := o.customRow(raw)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Out, render.Clean(strings.Join(cells, "   ")))
		return err
	}
	if o.expr != nil {
		if err := o.expr.Execute(a.Out, raw); err != nil {
			return fmt.Errorf("print with -o %s: %w", o.format, err)
		}
		return nil
	}
	write := manifest.Indent // of JSON that manifest has made safe
	if o.format == formatYAML {
		write = manifest.YAML
	}
	text, err := write(raw)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

// printTable prints a table. On a terminal it fits the width, unless the format is wide: pipes get
// all columns and all of their text.
func printTable(a *app, o *output, t *render.Table) error {
	if width, _, ok := a.Size(a.Out); ok && !o.wide() {
		t.Fit(width)
	}
	_, err := io.WriteString(a.painted(), t.Format(a.color(a.Out), !o.noHeaders))
	return err
}

// printCustom prints resources as a table with the columns of -o custom-columns.
func printCustom[M proto.Message](a *app, o *output, k kind[M], items []M) error {
	t := render.NewTable(mapped(o.custom, func(c expression.Column) string { return c.Header })...)
	for _, m := range items {
		raw, err := manifest.JSON(k.shown(m))
		if err != nil {
			return err
		}
		cells, err := o.customRow(raw)
		if err != nil {
			return err
		}
		t.Row(mapped(cells, func(c string) any { return c })...)
	}
	return printTable(a, &output{format: formatWide, noHeaders: o.noHeaders}, t) // its columns are never cut
}

// customRow returns the values of the columns for a document; "-" if there is none.
func (o *output) customRow(raw []byte) ([]string, error) {
	cells := make([]string, len(o.custom))
	for i, c := range o.custom {
		v, err := c.Value(raw)
		if err != nil {
			return nil, fmt.Errorf("print column %s: %w", c.Header, err)
		}
		cells[i] = cmp.Or(v, "-")
	}
	return cells, nil
}
