package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/access"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/apply"
	"github.com/holdfast-metal/holdfast/internal/cli/cluster"
	"github.com/holdfast-metal/holdfast/internal/cli/contexts"
	"github.com/holdfast-metal/holdfast/internal/cli/feed"
	"github.com/holdfast-metal/holdfast/internal/cli/image"
	"github.com/holdfast-metal/holdfast/internal/cli/install"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/machine"
	"github.com/holdfast-metal/holdfast/internal/cli/node"
	"github.com/holdfast-metal/holdfast/internal/cli/operator"
	"github.com/holdfast-metal/holdfast/internal/cli/plan"
	"github.com/holdfast-metal/holdfast/internal/cli/pool"
	"github.com/holdfast-metal/holdfast/internal/cli/run"
	"github.com/holdfast-metal/holdfast/internal/cli/secret"
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
func Root(s app.Streams, more ...*cobra.Command) *cobra.Command {
	a := app.New(s)
	a.Names = suggestible()
	a.Root = &cobra.Command{
		Use: "holdfast", Short: "A highly available control plane for bare metal",
		Long: rootLong + "\n\n" + app.ExitCodeHelp, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true,
	}
	a.Root.Version = cmp.Or(s.Version, "unknown")
	app.Parent(a.Root)
	a.Root.SetIn(s.In)
	a.Root.SetOut(s.Out)
	a.Root.SetErr(s.Err)
	a.Root.SetUsageTemplate(app.UsageTemplate(true))
	a.Root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(args) > 0 {
			return app.UnknownCommand(cmd, args) // its flags are unknown because it is
		}
		return app.Usagef("%s: %s: see: %s --help", cmd.CommandPath(), app.FlagTrouble(cmd, err), cmd.CommandPath())
	})
	a.Globals.Register(a.Root.PersistentFlags())
	a.Root.AddGroup(&cobra.Group{ID: groupOperate, Title: "Operate:"})
	if len(more) > 0 {
		a.Root.AddGroup(&cobra.Group{ID: groupServe, Title: "Run the control plane:"})
	}
	a.Root.AddGroup(&cobra.Group{ID: groupSetup, Title: "Set up:"})
	a.Root.SetHelpCommandGroupID(groupSetup)
	a.Root.SetCompletionCommandGroupID(groupSetup)

	for _, cmd := range []*cobra.Command{
		machine.Command(a, apply.EditMachine(a)), plan.Command(a, apply.EditPlan(a)), run.Command(a), run.Wave(a),
		pool.Command(a, apply.EditPool(a)), node.Command(a), feed.Service(a),
		cluster.Command(a), cluster.Peer(a), operator.Command(a), secret.ClusterRef(a),
		access.Token(a), access.Session(a), machine.Console(a), secret.Command(a), image.Command(a),
		install.Command(a), feed.Events(a), feed.Webhook(a), access.Audit(a), apply.Command(a), topCommand(a),
	} {
		cmd.GroupID = groupOperate
		a.Root.AddCommand(cmd)
	}
	for _, cmd := range more {
		cmd.GroupID = cmp.Or(cmd.GroupID, groupServe)
		cmd.Args = app.AsUsage(cmd.Args)
		cmd.SetUsageTemplate(app.UsageTemplate(false))
		a.Root.AddCommand(cmd)
	}
	a.Root.AddCommand(manCommand(a))
	for _, cmd := range []*cobra.Command{
		contexts.Command(a), contexts.Login(a), contexts.Logout(a), explainCommand(a), access.Whoami(a),
		cluster.Version(a),
	} {
		cmd.GroupID = groupSetup
		a.Root.AddCommand(cmd)
	}
	// cobra's own command prints its help if the shell is unknown: as a group it returns an error.
	a.Root.InitDefaultCompletionCmd("completion")
	for _, cmd := range a.Root.Commands() {
		if cmd.Name() == "completion" {
			app.Parent(cmd)
		}
	}
	_ = a.Root.RegisterFlagCompletionFunc("context", func(cmd *cobra.Command, _ []string,
		part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return contexts.Complete(a)(cmd, nil, part)
	}) // it fails only for a flag that does not exist
	app.SameFlag(a.Root)
	for _, cmd := range a.Root.Commands() {
		if cmd.GroupID != groupServe { // the settings of a peer may be empty
			app.CheckFlags(&a.Completing, cmd, cmd.Flags(), cmd.PersistentFlags())
		}
	}
	app.AllowEmpty(a.Root.PersistentFlags(), "token", "ca", "cert", "key") // context set clears with it
	app.CheckFlags(&a.Completing, &cobra.Command{}, a.Root.PersistentFlags())
	a.Root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() == cobra.ShellCompRequestCmd { // not for each command: cobra keeps completions forever
			a.Completing = true
			completeFlags(a, a.Root)
		}
	}
	return a.Root
}

// suggestible returns how the names of resources are listed, by the reason of the error without
// _NOT_FOUND. Ids that nobody types, such as those of runs, are not suggested.
func suggestible() map[string]app.Completer {
	return map[string]app.Completer{
		"MACHINE": kinds.Machine().Names, "PLAN": kinds.Plan().Names, "POOL": kinds.Pool().Names, "NODE": kinds.Node().Names,
		"IMAGE": kinds.Image().Names, "SECRET": kinds.Secret().Names, "WEBHOOK": kinds.Webhook().Names,
	}
}

// Main runs a command line and returns its exit code.
func Main(ctx context.Context, s app.Streams, args []string, more ...*cobra.Command) int {
	return Execute(ctx, s, Root(s, more...), args) //nolint:contextcheck // cobra passes the context of ExecuteContext to the commands
}

// Execute runs a command line of root and returns its exit code. Errors are printed to s.Err.
func Execute(ctx context.Context, s app.Streams, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		app.PrintError(s, err)
	}
	return app.ExitCode(err)
}
