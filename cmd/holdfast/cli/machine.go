package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) machine() *cobra.Command {
	return parent(&cobra.Command{
		Use: "machine", Aliases: []string{"machines", "m"},
		Short: "The inventory: machines and what operators want of them",
		Example: `  holdfast machine list --filter 'phase = IN_SERVICE AND labels.rack = "r7"'
  holdfast machine register -f machines.yaml
  holdfast machine why m-123`,
	}, a.machineList(), a.machineGet(), a.machineRegister(), a.machineCreate(), a.machineUpdate(), a.machineSetPhase(),
		a.machineDelete(), a.machineHistory(), a.machineWhy(), a.machineWatch(), a.machinePower(), a.machineBootDevice(), a.machineInspect(),
		a.machineInventory(), a.machineIdentify(), a.machineSEL(), a.machineBMCReset(), a.machineMedia(), a.machineConsole())
}

func (a *app) machineList() *cobra.Command {
	var l listing
	var watch bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short: "List machines",
		Long:  "List machines by id.\n\nSTATE is what an operator acts by: an active run makes it PROVISIONING whatever the phase is.\n-o wide adds the phase, conditions and banners.",
		Example: `  holdfast machine list
  holdfast machine list --filter 'phase = MAINTENANCE' -o wide
  holdfast machine list --filter 'labels.rack = "r7"' -o name
  holdfast machine list -w`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			if watch {
				return a.watchMachines(ctx, &l.output, watchInterval, func() ([]*holdfastv1.Machine, error) {
					items, _, err := listMachines(ctx, c, &l)
					return items, err
				})
			}
			items, more, err := listMachines(ctx, c, &l)
			if err != nil {
				return err
			}
			a.noteMore(&l, more)
			return printList(a, &l.output, machineKind(), items)
		}),
	}
	l.register(cmd, "phase = IN_SERVICE")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print each machine again when it changes (holdfast machine watch)")
	return cmd
}

func listMachines(ctx context.Context, c *client.Client, l *listing) ([]*holdfastv1.Machine, bool, error) {
	items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Machine, string, error) {
		r, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: l.filter, PageSize: size, PageToken: token})
		return r.GetMachines(), r.GetNextPageToken(), err
	})
	return items, more, failed(err, "list machines")
}

func (a *app) machineGet() *cobra.Command {
	var o output
	var watch bool
	cmd := &cobra.Command{
		Use: "get MACHINE", Args: exactly("MACHINE"), ValidArgsFunction: a.complete(machineIDs),
		Short: "Show a machine",
		Example: `  holdfast machine get m-123
  holdfast machine get m-123 -o yaml
  holdfast machine get m-123 -w`,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if watch {
				return a.watchMachines(ctx, &o, watchInterval, func() ([]*holdfastv1.Machine, error) {
					m, err := getMachine(ctx, c, args[0])
					return []*holdfastv1.Machine{m}, err
				})
			}
			m, err := getMachine(ctx, c, args[0])
			if err != nil {
				return err
			}
			return printOne(a, &o, machineKind(), m, conditionTable(m, a.Now()), factTable(m, a.Now()), hardwareTable(m, a.Now()))
		}),
	}
	o.register(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print it again when it changes")
	return cmd
}

func getMachine(ctx context.Context, c *client.Client, id string) (*holdfastv1.Machine, error) {
	m, err := c.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	return m, failed(err, "get machine %s", id)
}

// at is a time, or the zero time when there is none.
func at(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}
