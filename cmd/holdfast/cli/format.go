package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// format is the value of -o.
type format string

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(v string) error {
	if all := formats(); !slices.Contains(all, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(all, ", "))
	}
	*f = format(v)
	return nil
}

func formats() []string {
	return []string{formatTable, formatWide, formatJSON, formatYAML, formatName}
}

// output is how a command prints resources.
type output struct {
	format    format
	noHeaders bool
}

func (o *output) register(cmd *cobra.Command) {
	o.format = formatTable
	cmd.Flags().VarP(&o.format, "output", "o", "output format: "+strings.Join(formats(), ", "))
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "tables without a header")
	// Only fails for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) wide() bool  { return o.format == formatWide }
func (o *output) table() bool { return o.format == formatTable || o.format == formatWide }
