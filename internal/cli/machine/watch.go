package machine

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineWatch(a *app.App) *cobra.Command {
	var l output.Listing
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watch [MACHINE]", Args: app.Between(0, 1, "MACHINE"), ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short: "Follow changes of machines",
		Long: `Print machines, and print each one again when it changes, until Ctrl-C. It polls every --interval and shows
the last of several changes in between. 'run watch' shows every step of every run.`,
		Example: `  holdfast machine watch
  holdfast machine watch m-123 -o json
  holdfast machine watch --filter 'labels.rack = "r7"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := l.Resolve(); {
			case err != nil:
				return err
			case len(args) > 0 && l.Filter != "":
				return app.Usagef("%s: give either a machine or --filter", cmd.CommandPath())
			case l.SortBy != "":
				return app.Usagef("%s: a watch prints changes in their order: omit --sort-by", cmd.CommandPath())
			case every <= 0:
				return app.Usagef("--interval: %s: give more than 0", every)
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				return watchMachines(ctx, a, &l.Flags, every, func() ([]*holdfastv1.Machine, error) {
					if len(args) > 0 {
						m, err := kinds.GetMachine(ctx, c, args[0])
						return []*holdfastv1.Machine{m}, err
					}
					return kinds.ListMachines(ctx, c, &l)
				})
			})(cmd, args)
		},
	}
	l.Register(cmd, "phase = IN_SERVICE", true)
	cmd.Flags().DurationVar(&every, "interval", output.WatchInterval, "interval between polls")
	return cmd
}

// watchMachines prints the machines that read returns, and changed ones again, until the
// context ends.
func watchMachines(
	ctx context.Context, a *app.App, o *output.Flags, every time.Duration, read func() ([]*holdfastv1.Machine, error),
) error {
	return output.WatchPolled(ctx, a, o, kinds.Machine(), every, kinds.Significant, read)
}
