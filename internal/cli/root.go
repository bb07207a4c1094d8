package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
)

const rootLong = `Holdfast is a highly available control plane for bare metal.

The commands below talk to any peer of a cluster: --addr, HOLDFAST_ADDR, or a context of
the config file (holdfast context --help). Several addresses are tried one after the other.

Output goes to standard output in the format of -o (table, wide, json, yaml, name, jsonpath=…,
go-template=…, custom-columns=…); notes and errors go to standard error. There are colors on
terminals, unless NO_COLOR is set.`

const rootExample = `  holdfast machine list
  holdfast run start m-123 --type REPAVE --wait
  holdfast machine why m-123
  holdfast run list --filter 'phase = RUNNING' -o json`

// Groups of commands in the help.
const (
	groupOperate = "operate"
	groupServe   = "serve"
	groupSetup   = "setup"
)

// Root returns the root command with the commands of this package and more, which run the
// control plane itself. The client flags are not shown in the help of those.
func Root(s Streams, more ...*cobra.Command) *cobra.Command {
	a := newApp(s)
	a.names = suggestible()
	a.root = &cobra.Command{
		Use: "holdfast", Short: "A highly available control plane for bare metal",
		Long: rootLong + "\n\n" + exitCodeHelp, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true,
	}
	a.root.Version = cmp.Or(s.Version, "unknown")
	parent(a.root)
	a.root.SetIn(s.In)
	a.root.SetOut(s.Out)
	a.root.SetErr(s.Err)
	a.root.SetUsageTemplate(usageTemplate(true))
	a.root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(args) > 0 {
			return unknownCommand(cmd, args) // its flags are unknown because it is
		}
		return usagef("%s: %s: see: %s --help", cmd.CommandPath(), flagTrouble(cmd, err), cmd.CommandPath())
	})
	a.globals.register(a.root.PersistentFlags())
	a.root.AddGroup(&cobra.Group{ID: groupOperate, Title: "Operate:"})
	if len(more) > 0 {
		a.root.AddGroup(&cobra.Group{ID: groupServe, Title: "Run the control plane:"})
	}
	a.root.AddGroup(&cobra.Group{ID: groupSetup, Title: "Set up:"})
	a.root.SetHelpCommandGroupID(groupSetup)
	a.root.SetCompletionCommandGroupID(groupSetup)

	for _, cmd := range []*cobra.Command{
		machineCommand(a, machineEdit(a)), planCommand(a, planEdit(a)), runCommand(a), waveCommand(a),
		poolCommand(a, poolEdit(a)), nodeCommand(a), serviceCommand(a),
		clusterCommand(a), peerCommand(a), operatorCommand(a), clusterRefCommand(a),
		tokenCommand(a), sessionCommand(a), consoleCommand(a), secretCommand(a), imageCommand(a),
		installCommand(a), eventsCommand(a), webhookCommand(a), auditCommand(a), applyCommand(a), topCommand(a),
	} {
		cmd.GroupID = groupOperate
		a.root.AddCommand(cmd)
	}
	for _, cmd := range more {
		cmd.GroupID = cmp.Or(cmd.GroupID, groupServe)
		cmd.Args = asUsage(cmd.Args)
		cmd.SetUsageTemplate(usageTemplate(false))
		a.root.AddCommand(cmd)
	}
	a.root.AddCommand(manCommand(a))
	for _, cmd := range []*cobra.Command{
		contextCommand(a), loginCommand(a), logoutCommand(a), explainCommand(a), whoamiCommand(a),
		versionCommand(a),
	} {
		cmd.GroupID = groupSetup
		a.root.AddCommand(cmd)
	}
	// cobra's own command prints its help if the shell is unknown: as a group it returns an error.
	a.root.InitDefaultCompletionCmd("completion")
	for _, cmd := range a.root.Commands() {
		if cmd.Name() == "completion" {
			parent(cmd)
		}
	}
	_ = a.root.RegisterFlagCompletionFunc("context", func(cmd *cobra.Command, _ []string,
		part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeContexts(a)(cmd, nil, part)
	}) // it fails only for a flag that does not exist
	sameFlag(a.root)
	for _, cmd := range a.root.Commands() {
		if cmd.GroupID != groupServe { // the settings of a peer may be empty
			checkFlags(&a.completing, cmd, cmd.Flags(), cmd.PersistentFlags())
		}
	}
	allowEmpty(a.root.PersistentFlags(), "token", "ca", "cert", "key") // context set clears with it
	checkFlags(&a.completing, &cobra.Command{}, a.root.PersistentFlags())
	a.root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() == cobra.ShellCompRequestCmd { // not for each command: cobra keeps completions forever
			a.completing = true
			completeFlags(a, a.root)
		}
	}
	return a.root
}

// suggestible returns how the names of resources are listed, by the reason of the error without
// _NOT_FOUND. Ids that nobody types, such as those of runs, are not suggested.
func suggestible() map[string]completer {
	return map[string]completer{
		"MACHINE": machineKind().names, "PLAN": planKind().names, "POOL": poolKind().names, "NODE": nodeKind().names,
		"IMAGE": imageKind().names, "SECRET": secretKind().names, "WEBHOOK": webhookKind().names,
	}
}

// Main runs a command line and returns its exit code.
func Main(ctx context.Context, s Streams, args []string, more ...*cobra.Command) int {
	return Execute(ctx, s, Root(s, more...), args) //nolint:contextcheck // cobra passes the context of ExecuteContext to the commands
}

// Execute runs a command line of root and returns its exit code. Errors are printed to s.Err.
func Execute(ctx context.Context, s Streams, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		printError(s, err)
	}
	return ExitCode(err)
}
