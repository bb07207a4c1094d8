package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineWatch(a *app) *cobra.Command {
	var l listing
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watch [MACHINE]", Args: between(0, 1, "MACHINE"), ValidArgsFunction: a.complete(machineKind().names),
		Short: "Follow changes of machines",
		Long: `Print machines, and print each one again when it changes, until Ctrl-C. It polls every --interval and shows
the last of several changes in between. 'run watch' shows every step of every run.`,
		Example: `  holdfast machine watch
  holdfast machine watch m-123 -o json
  holdfast machine watch --filter 'labels.rack = "r7"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := l.resolve(); {
			case err != nil:
				return err
			case len(args) > 0 && l.filter != "":
				return usagef("%s: give either a machine or --filter", cmd.CommandPath())
			case l.sortBy != "":
				return usagef("%s: a watch prints changes in their order: omit --sort-by", cmd.CommandPath())
			case every <= 0:
				return usagef("--interval: %s: give more than 0", every)
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				return watchMachines(ctx, a, &l.output, every, func() ([]*holdfastv1.Machine, error) {
					if len(args) > 0 {
						m, err := getMachine(ctx, c, args[0])
						return []*holdfastv1.Machine{m}, err
					}
					return listMachines(ctx, c, &l)
				})
			})(cmd, args)
		},
	}
	l.register(cmd, "phase = IN_SERVICE", true)
	cmd.Flags().DurationVar(&every, "interval", watchInterval, "interval between polls")
	return cmd
}

// watchMachines prints the machines that read returns, and changed ones again, until the
// context ends.
func watchMachines(
	ctx context.Context, a *app, o *output, every time.Duration, read func() ([]*holdfastv1.Machine, error),
) error {
	return watchPolled(ctx, a, o, machineKind(), every, significant, read)
}
