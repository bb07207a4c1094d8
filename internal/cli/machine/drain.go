package machine

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

func machineDrain(a *app.App) *cobra.Command {
	flags := map[string]*bool{}
	cmd := machinePlanCommand(a, &cobra.Command{
		Use: "drain MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Cordon the node of a machine and evict its pods",
		Long: `Cordon the node of a machine in its cluster, and evict its pods until none is left that must leave. It is a run of plan/drain. The
phase of the machine stays, and its condition Drained becomes true. A pod that a disruption budget protects stays until the
step's deadline (30 minutes): 'machine why' names it. If the run fails or is canceled, the node stays cordoned.

A machine that is in no cluster is refused. ` + askInService,
		Example: `  holdfast machine drain m-123 --dry-run
  holdfast machine drain m-123 --yes
  holdfast machine uncordon m-123`,
	}, machinePlan{plan: func([]string) (string, map[string]string, error) {
		return "plan/drain", switches(flags), nil
	}, asks: true})
	flags["force"] = cmd.Flags().Bool("force", false, "evict pods that no controller would recreate, too")
	return cmd
}

func machineUncordon(a *app.App) *cobra.Command {
	return machinePlanCommand(a, &cobra.Command{
		Use: "uncordon MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Let the cluster place pods on the node of a machine again",
		Long: `Let the cluster place pods on the node of a machine again, after 'machine drain'. It is a run of plan/uncordon. The phase of the
machine stays, and its condition Drained becomes false. A machine that is in no cluster is refused.`,
		Example: "  holdfast machine uncordon m-123",
	}, machinePlan{plan: fixedPlan("plan/uncordon"), asks: true})
}
