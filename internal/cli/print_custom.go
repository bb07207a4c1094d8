package cli

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/expression"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

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
	return a.table(&output{format: formatWide, noHeaders: o.noHeaders}, t) // its columns are never cut
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
