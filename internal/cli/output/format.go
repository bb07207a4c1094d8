package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/expression"
)

// Output formats.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatName  = "name"
)

func formats() []string {
	return []string{FormatTable, FormatWide, FormatJSON, FormatYAML, FormatName}
}

// Flags is the format and style in which a command prints resources.
type Flags struct {
	Format    string // its name, or an expression: jsonpath=…, go-template=… or custom-columns=…
	NoHeaders bool
	columns   []string               // labels that tables show in a column of their own
	expr      *expression.Expression // nil unless the format is one
	custom    []expression.Column    // of custom-columns; nil with any other format
}

// String implements pflag.Value.
func (o *Flags) String() string { return o.Format }

// Type implements pflag.Value.
func (o *Flags) Type() string { return "format" }

// Set implements pflag.Value.
func (o *Flags) Set(v string) error {
	o.Format, o.expr, o.custom = v, nil, nil
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

// Register adds the flags of the output. A command that changes something names the shapes of its
// documents, of which --output must fit one.
func (o *Flags) Register(cmd *cobra.Command, prints ...expression.Shape) {
	if len(prints) > 0 {
		cmd.RunE = o.before(cmd.RunE, prints)
	}
	o.Format = FormatTable
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats(),
		", ")+", "+strings.Join(expression.Kinds(), "=…, ")+"=…")
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "print tables without a header")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(append(formats(), "jsonpath=",
		"go-template=", "custom-columns="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

func (o *Flags) wide() bool { return o.Format == FormatWide }

// Structured reports whether whole messages are printed, or the result of an expression.
func (o *Flags) Structured() bool { return !o.Table() && o.Format != FormatName }

// Table reports whether tables are printed.
func (o *Flags) Table() bool { return o.Format == FormatTable || o.Format == FormatWide }
