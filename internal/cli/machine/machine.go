package machine

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of machines, with that which edits one.
func Command(a *app.App, edit *cobra.Command) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "machine", Aliases: []string{"machines", "m"},
		Short: "Manage machines and their power, phase and hardware",
		Example: `  holdfast machine list --filter 'phase = IN_SERVICE AND labels.rack = "r7"'
  holdfast machine register -f machines.yaml
  holdfast machine why m-123`,
	}, machineList(a), machineGet(a), machineRegister(a), machineCreate(a), machineUpdate(a), edit,
		machineSetPhase(a), machineBMCRetry(a), machineDelete(a), machineHistory(a), machineIssues(a),
		machineWhy(a), machineWatch(a), machinePower(a), machineBootDevice(a), machineInspect(a),
		machineInventory(a), machineIdentify(a), machineSEL(a), machineBMCReset(a), machineMedia(a), machineConsole(a),
		machineDrain(a), machineUncordon(a))
}

func machineList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Machine]{
		Short: "List machines by id",
		Long: "List machines by id.\n\nSTATE is what an operator acts by: an active run makes it PROVISIONING " +
			"whatever the phase is.\n-o wide adds the phase, conditions and banners.",
		Example: `  holdfast machine list
  holdfast machine list --filter 'phase = MAINTENANCE' -o wide
  holdfast machine list --filter 'labels.rack = "r7"' -o name
  holdfast machine list --sort-by -updated_at --limit 20
  holdfast machine list -o jsonpath='{range .machines[*]}{.machine_id} {.spec.bmc_endpoint}{"\n"}{end}'
  holdfast machine list -w`,
		Kind: kinds.Machine(), Filter: "phase = IN_SERVICE",
		Watch: func(ctx context.Context, c *client.Client, l *output.Listing) error {
			return watchMachines(ctx, a, &l.Flags, output.WatchInterval, func() ([]*holdfastv1.Machine, error) {
				return kinds.ListMachines(ctx, c, l)
			})
		},
	})
}

func machineGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Machine]{
		Short: "Show a machine",
		Example: `  holdfast machine get m-123
  holdfast machine get m-123 -o yaml
  holdfast machine get m-123 -o jsonpath=status.phase
  holdfast machine get m-123 -w`,
		Kind: kinds.Machine(),
		More: func(m *holdfastv1.Machine) []*render.Table {
			return []*render.Table{kinds.ConditionTable(m, a.Now()), factTable(m, a.Now()), hardwareTable(m, a.Now())}
		},
		Watch: func(ctx context.Context, c *client.Client, o *output.Flags, id string) error {
			return watchMachines(ctx, a, o, output.WatchInterval, func() ([]*holdfastv1.Machine, error) {
				m, err := kinds.GetMachine(ctx, c, id)
				return []*holdfastv1.Machine{m}, err
			})
		},
	})
}
