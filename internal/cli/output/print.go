package output

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
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/expression"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/secrets"
)

// Kind describes one kind of resource: how it is read, named and printed.
type Kind[M proto.Message] struct {
	Noun   string // in messages, and the command that is about them: machine
	Arg    string // in usage lines; empty: the noun in capitals
	List   string // the key of a list of them
	Name   func(M) string
	Header []string
	Wide   []string                       // more columns for -o wide
	Row    func(m M, now time.Time) []any // the cells of all columns, as for render.Table
	Reveal bool                           // it is there to show a secret, this once
	Page   pager[M]
	Get    func(ctx context.Context, c *client.Client, id string) (M, error)
	Offer  string // filter of the names that a shell completes; empty: all
}

// pager requests one page of a list, with the filter and the arguments of the command line.
type pager[M proto.Message] func(ctx context.Context, c *client.Client, q Query) (items []M, next string, err error)

// Usage returns the argument of commands about one resource.
func (k Kind[M]) Usage() string { return cmp.Or(k.Arg, strings.ToUpper(k.Noun)) }

// listed returns the name of one resource, or the number of several.
func (k Kind[M]) listed(names []string) string {
	if len(names) == 1 {
		return k.Noun + " " + names[0]
	}
	return describe.Number(len(names), k.Noun)
}

// All reads the resources that match a filter, at most limit of them; 0: all.
func (k Kind[M]) All(ctx context.Context, c *client.Client, filter string, limit int) ([]M, error) {
	items, _, err := Collect(limit, func(size int32, token string) ([]M, string, error) {
		return k.Page(ctx, c, Query{Filter: filter, Size: size, Token: token})
	})
	return items, err
}

// First reads at most limit resources, and reports whether there are more.
func (k Kind[M]) First(ctx context.Context, c *client.Client, limit int) ([]M, bool, error) {
	return Collect(limit, func(size int32, token string) ([]M, string, error) {
		return k.Page(ctx, c, Query{Size: size, Token: token})
	})
}

// Names completes the names of resources, from the first page.
func (k Kind[M]) Names(ctx context.Context, c *client.Client) []string {
	items, _, err := k.Page(ctx, c, Query{Filter: k.Offer, Size: PageSize})
	if err != nil {
		return nil
	}
	return app.Mapped(items, k.Name)
}

// shown returns a message without fields that hold a secret.
func (k Kind[M]) shown(m M) M {
	if k.Reveal {
		return m
	}
	return secrets.Redact(m)
}

// NewTable returns an empty table with the columns that the flags select.
func (k Kind[M]) NewTable(o *Flags) *render.Table {
	header := slices.Clone(k.Header)
	if o.wide() {
		header = append(header, k.Wide...)
	}
	for _, label := range o.columns {
		header = append(header, strings.ToUpper(label))
	}
	return render.NewTable(header...)
}

// cells returns the cells of a row of NewTable.
func (k Kind[M]) cells(o *Flags, m M, now time.Time) []any {
	cells := k.Row(m, now)
	if !o.wide() {
		cells = cells[:min(len(cells), len(k.Header))]
	}
	if with, ok := any(m).(labeled); ok {
		for _, label := range o.columns {
			cells = append(cells, with.GetLabels()[label])
		}
	}
	return cells
}

// PrintList prints resources as a list, even a single one.
func PrintList[M proto.Message](a *app.App, o *Flags, k Kind[M], items []M) error {
	if err := o.check(shapeOf[M](), k.List); err != nil {
		return err
	}
	switch {
	case o.Format == FormatName:
		return PrintNames(a, k, items)
	case o.custom != nil:
		return printCustom(a, o, k, items)
	case !o.Table():
		raw, err := manifest.List(k.List, app.Mapped(items, k.shown))
		if err != nil {
			return err
		}
		return PrintDocument(a, o, raw)
	}
	t := k.NewTable(o)
	now := a.Now()
	for _, m := range items {
		t.Row(k.cells(o, m, now)...)
	}
	return PrintTable(a, o, t)
}

// PrintOne prints one resource. more adds text below the row of the table.
func PrintOne[M proto.Message](a *app.App, o *Flags, k Kind[M], m M, more ...*render.Table) error {
	if err := o.check(shapeOf[M](), ""); err != nil {
		return err
	}
	switch {
	case o.Format == FormatName:
		return PrintNames(a, k, []M{m})
	case o.custom != nil:
		return printCustom(a, o, k, []M{m})
	case !o.Table():
		raw, err := manifest.JSON(k.shown(m))
		if err != nil {
			return err
		}
		return PrintDocument(a, o, raw)
	}
	if err := PrintList(a, o, k, []M{m}); err != nil {
		return err
	}
	for _, t := range more {
		if t.Len() == 0 {
			continue
		}
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
		if err := PrintTable(a, o, t); err != nil {
			return err
		}
	}
	return nil
}

// PrintNames prints the name of each resource on a line.
func PrintNames[M proto.Message](a *app.App, k Kind[M], items []M) error {
	for _, m := range items {
		if _, err := fmt.Fprintln(a.Out, k.Name(m)); err != nil {
			return err
		}
	}
	return nil
}

// PrintStream prints one of a stream of resources: JSON on one line, YAML as a document, the
// text of an expression on one line.
func PrintStream[M proto.Message](a *app.App, o *Flags, m M) error {
	if err := o.check(shapeOf[M](), ""); err != nil {
		return err
	}
	raw, err := manifest.JSON(secrets.Redact(m))
	if err != nil {
		return err
	}
	return PrintStreamed(a, o, raw)
}

// PrintStreamed prints the JSON of one of a stream of resources.
func PrintStreamed(a *app.App, o *Flags, raw []byte) error {
	switch {
	case o.Format == FormatJSON:
		_, err := a.Out.Write(append(raw, '\n'))
		return err
	case o.expr != nil, o.custom != nil:
		return PrintDocument(a, o, raw)
	}
	if _, err := fmt.Fprintln(a.Out, "---"); err != nil {
		return err
	}
	return PrintDocument(a, o, raw)
}

// PrintDocument prints JSON as indented JSON, as YAML, as custom columns, or through an expression.
func PrintDocument(a *app.App, o *Flags, raw []byte) error {
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
			return fmt.Errorf("print with -o %s: %w", o.Format, err)
		}
		return nil
	}
	write := manifest.Indent // of JSON that manifest has made safe
	if o.Format == FormatYAML {
		write = manifest.YAML
	}
	text, err := write(raw)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

// PrintTable prints a table. On a terminal it fits the width, unless the format is wide: pipes get
// all columns and all of their text.
func PrintTable(a *app.App, o *Flags, t *render.Table) error {
	if width, _, ok := a.Size(a.Out); ok && !o.wide() {
		t.Fit(width)
	}
	_, err := io.WriteString(a.Painted(), t.Format(a.Color(a.Out), !o.NoHeaders))
	return err
}

// printCustom prints resources as a table with the columns of -o custom-columns.
func printCustom[M proto.Message](a *app.App, o *Flags, k Kind[M], items []M) error {
	t := render.NewTable(app.Mapped(o.custom, func(c expression.Column) string { return c.Header })...)
	for _, m := range items {
		raw, err := manifest.JSON(k.shown(m))
		if err != nil {
			return err
		}
		cells, err := o.customRow(raw)
		if err != nil {
			return err
		}
		t.Row(app.Mapped(cells, func(c string) any { return c })...)
	}
	return PrintTable(a, &Flags{Format: FormatWide, NoHeaders: o.NoHeaders}, t) // its columns are never cut
}

// customRow returns the values of the columns for a document; "-" if there is none.
func (o *Flags) customRow(raw []byte) ([]string, error) {
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
