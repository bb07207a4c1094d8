package machine

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineUpdate(a *app.App) *cobra.Command {
	var (
		o    output.Flags
		spec specFlags
		in   output.Inputs
	)
	cmd := &cobra.Command{
		Use:                   "update (MACHINE [flags] | -f FILE)",
		DisableFlagsInUseLine: true,
		Args:                  app.Between(0, 1, "MACHINE"),
		ValidArgsFunction:     a.Complete(kinds.Machine().Names),
		Short:                 "Update spec and labels of a machine",
		Long: `Update spec and labels of a registered machine.

With flags only the named fields change; --label key- removes a label, --rack "" clears the rack, and
--mac replaces all MAC addresses. With -f the spec and labels of the file, if present, replace those of
each machine in it.`,
		Example: `  holdfast machine update m-123 --rack r7 --label env=prod --label canary-
  holdfast machine update -f machines.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			updates, err := readUpdates(a, cmd, args, &spec, &in)
			if err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				changed := app.Mapped(updates, (*holdfastv1.UpdateMachineRequest).GetMachine)
				if err := kinds.CheckPools(ctx, c, changed, nil); err != nil {
					return err
				}
				return output.StoreEach(a, &o, kinds.Machine(), updates, "update machines",
					func(u *holdfastv1.UpdateMachineRequest) (*holdfastv1.Machine, error) {
						m, err := c.Machines().UpdateMachine(ctx, u)
						return m, app.Failed(err, "update machine %s", u.GetMachine().GetMachineId())
					})
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Machine())...)
	spec.register(cmd.Flags())
	for d := range machinefield.All() {
		app.AllowEmpty(cmd.Flags(), d.GetFlag())
	}
	in.Register(cmd.Flags(), "machines")
	return cmd
}

func readUpdates(a *app.App,
	cmd *cobra.Command, args []string, spec *specFlags, in *output.Inputs,
) ([]*holdfastv1.UpdateMachineRequest, error) {
	paths := spec.paths(cmd.Flags())
	switch {
	case in.Given() && (len(args) > 0 || len(paths) > 0):
		return nil, app.Usagef("%s: give either -f, or a machine and flags", cmd.CommandPath())
	case !in.Given() && len(args) == 0:
		return nil, app.Usagef("%s: MACHINE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
	case !in.Given() && len(paths) == 0:
		return nil, app.Usagef("%s: nothing to update: give a flag like --label or --rack: see: %s --help",
			cmd.CommandPath(), cmd.CommandPath())
	case !in.Given():
		m, err := spec.machine(args[0], true)
		if err != nil {
			return nil, err
		}
		return []*holdfastv1.UpdateMachineRequest{{Machine: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}}, nil
	}
	machines, err := output.ReadDocuments(a, in, kinds.Machine())
	if err != nil {
		return nil, err
	}
	return app.Mapped(machines, func(m *holdfastv1.Machine) *holdfastv1.UpdateMachineRequest {
		return &holdfastv1.UpdateMachineRequest{Machine: m}
	}), nil
}
