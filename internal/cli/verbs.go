package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// parent makes a command that only has commands below it: alone it shows its help, and a word that
// it does not know is a usage error.
func parent(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			msg += fmt.Sprintf(": did you mean %s?", strings.Join(like, " or "))
		}
		return usagef("%s: see: %s --help", msg, cmd.CommandPath())
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// exactly wants these arguments, which the usage line names too.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), len(names), names...) }

// atLeast wants one or more of these.
func atLeast(name string) cobra.PositionalArgs { return between(1, 1<<30, name) }

// between wants as many arguments; those that are missing are named.
func between(low, high int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return usagef("%s: %s is missing: usage: %s", cmd.CommandPath(), names[len(args)], cmd.UseLine())
		case len(args) > high:
			msg := fmt.Sprintf("%s: unexpected argument %q", cmd.CommandPath(), args[high])
			if f := cmd.Flags().Lookup("wait"); f != nil && f.Changed {
				msg += ": a time to wait is written --wait=10m"
			}
			return usagef("%s: usage: %s", msg, cmd.UseLine())
		}
		return nil
	}
}

// usageTemplate is cobra's, without the "[flags]" line of commands that only hold others. The flags
// of the clients are left out for commands that are none.
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
