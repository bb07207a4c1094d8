package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// parent turns cmd into a group: alone it prints its help, and an unknown word is a usage
// error.
func parent(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args)
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// didYouMean returns the name that a mistyped one was meant to be, as a question, or "".
func didYouMean(written string, names []string) string {
	if guess := nearest.Of(written, names); guess != "" {
		return ": did you mean " + guess + "?"
	}
	return ""
}

// exactly requires these arguments, which the usage line names.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), len(names), names...) }

// atLeast requires one or more of these arguments.
func atLeast(name string) cobra.PositionalArgs { return between(1, 1<<30, name) }

// between requires a number of arguments; the error names the missing ones.
func between(low, high int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return usagef("%s: %s is missing: usage: %s", cmd.CommandPath(), names[len(args)], cmd.UseLine())
		case len(args) > high:
			msg := fmt.Sprintf("%s: unexpected argument %q", cmd.CommandPath(), args[high])
			msg += otherWay(cmd, args[high])
			return usagef("%s: usage: %s", msg, cmd.UseLine())
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

// asUsage returns the check of arguments of another package's command with usage errors.
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || ExitCode(err) != ExitError {
			return err
		}
		return usagef("%s: see: %s --help", err, cmd.CommandPath())
	}
}

// usageTemplate returns cobra's template without the "[flags]" line of groups. client selects
// whether to show the client flags.
func usageTemplate(client bool) string {
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

// sameFlag lets --filter and --selector stand for each other in all commands that have one of them:
// both take a filter.
func sameFlag(cmd *cobra.Command) {
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
		sameFlag(sub)
	}
}
