package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/expression"
)

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

func formats() []string {
	return []string{formatTable, formatWide, formatJSON, formatYAML, formatName}
}

// output is the format and style in which a command prints resources.
type output struct {
	format    string // its name, or an expression: jsonpath=…, go-template=… or custom-columns=…
	noHeaders bool
	columns   []string               // labels that tables show in a column of their own
	expr      *expression.Expression // nil unless the format is one
	custom    []expression.Column    // of custom-columns; nil with any other format
}

// String implements pflag.Value.
func (o *output) String() string { return o.format }

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

// Set implements pflag.Value.
func (o *output) Set(v string) error {
	o.format, o.expr, o.custom = v, nil, nil
	if slices.Contains(formats(), v) {
		return nil
	}
	kind, text, ok := strings.Cut(v, "=")
	if !ok || !slices.Contains(expression.Kinds(), kind) {
		return fmt.Errorf("%q is not one of %s, %s=…", v, strings.Join(formats(), ", "),
			strings.Join(expression.Kinds(), "=…, "))
	}
	var err error
	if kind == expression.CustomColumns {
		o.custom, err = expression.Columns(text)
	} else {
		o.expr, err = expression.Parse(kind, text)
	}
	return err
}

// register adds the flags of the output. A command that changes something names the shapes of its
// documents, of which --output must fit one.
func (o *output) register(cmd *cobra.Command, prints ...expression.Shape) {
	if len(prints) > 0 {
		cmd.RunE = o.before(cmd.RunE, prints)
	}
	o.format = formatTable
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats(),
		", ")+", "+strings.Join(expression.Kinds(), "=…, ")+"=…")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print tables without a header")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(append(formats(), "jsonpath=",
		"go-template=", "custom-columns="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

func (o *output) wide() bool { return o.format == formatWide }

// structured reports whether whole messages are printed, or the result of an expression.
func (o *output) structured() bool { return !o.table() && o.format != formatName }

// table reports whether tables are printed.
func (o *output) table() bool { return o.format == formatTable || o.format == formatWide }
