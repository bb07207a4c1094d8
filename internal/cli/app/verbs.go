package app

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// Parent turns cmd into a group: alone it prints its help, and an unknown word is a usage
// error.
func Parent(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return UnknownCommand(cmd, args)
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// DidYouMean returns the name that a mistyped one was meant to be, as a question, or "".
func DidYouMean(written string, names []string) string {
	if guess := nearest.Of(written, names); guess != "" {
		return ": did you mean " + guess + "?"
	}
	return ""
}

// Exactly requires these arguments, which the usage line names.
func Exactly(names ...string) cobra.PositionalArgs { return Between(len(names), len(names), names...) }

// AtLeast requires one or more of these arguments.
func AtLeast(name string) cobra.PositionalArgs { return Between(1, 1<<30, name) }

// Between requires a number of arguments; the error names the missing ones.
func Between(low, high int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return Usagef("%s: %s is missing: usage: %s", cmd.CommandPath(), names[len(args)], cmd.UseLine())
		case len(args) > high:
			msg := fmt.Sprintf("%s: unexpected argument %q", cmd.CommandPath(), args[high])
			msg += otherWay(cmd, args[high])
			return Usagef("%s: usage: %s", msg, cmd.UseLine())
		}
		return nil
	}
}

// otherWay returns the flag that takes the value of an unexpected argument, or "".
func otherWay(cmd *cobra.Command, arg string) string {
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	switch f := cmd.Flags().Lookup("wait"); {
	case f != nil && f.Changed:
		return ": a time to wait is written --wait=10m"
	case has("file") && (strings.Contains(arg, ".") || strings.Contains(arg, "/")):
		return ": a file is given with -f " + arg
	case has("selector"):
		return `: several machines are selected with --selector, such as --selector 'machine_id = m-1 OR machine_id = m-2'`
	case has("filter"):
		return ": several are selected with --filter"
	case has("file"):
		return ": a file is given with -f FILE"
	}
	return ""
}

// AsUsage returns the check of arguments of another package's command with usage errors.
func AsUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || ExitCode(err) != ExitError {
			return err
		}
		return Usagef("%s: see: %s --help", err, cmd.CommandPath())
	}
}

// UsageTemplate returns cobra's template without the "[flags]" line of groups. client selects
// whether to show the client flags.
func UsageTemplate(client bool) string {
	global := ""
	if client {
		global = `{{if .HasParent}}

Global flags (see: holdfast --help):
  --addr --token --context --ca --cert --key --timeout --stale --debug{{end}}`
	}
	return `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}` + global + `{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`
}

// typedAs is the annotation of a flag with two names that holds the typed one while the flag is
// set.
const typedAs = "holdfast_typed_as"

// typedName returns the name by which a flag was typed.
func typedName(f *pflag.Flag) string {
	if typed := f.Annotations[typedAs]; len(typed) > 0 {
		return typed[0]
	}
	return f.Name
}

// SameFlag lets --filter and --selector stand for each other in all commands that have one of them:
// both take a filter.
func SameFlag(cmd *cobra.Command) {
	for _, name := range [][2]string{{"filter", "selector"}, {"selector", "filter"}} {
		has, other := name[0], name[1]
		if cmd.Flags().Lookup(has) == nil || cmd.Flags().Lookup(other) != nil {
			continue
		}
		flag, last := cmd.Flags().Lookup(has), has
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, written string) pflag.NormalizedName {
			if written == has || written == other { // pflag asks for the written name, then for has
				flag.Annotations[typedAs], last = []string{last}, written
			}
			if written == other {
				written = has
			}
			return pflag.NormalizedName(written)
		})
	}
	for _, sub := range cmd.Commands() {
		SameFlag(sub)
	}
}
