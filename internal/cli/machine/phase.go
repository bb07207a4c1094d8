package machine

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineSetPhase(a *app.App) *cobra.Command {
	var o output.Flags
	var ok prompt.Consent
	var comment string
	cmd := &cobra.Command{
		Use: "set-phase MACHINE PHASE", Args: app.Exactly("MACHINE", "PHASE"),
		ValidArgsFunction: a.Complete(kinds.Machine().Names, phaseNames),
		Short:             "Move a machine to another phase by hand",
		Long: `Move a machine to another phase by hand, e.g. into MAINTENANCE and back into IN_SERVICE, to RMA or RETIRED.
The current phase decides which moves are allowed; only runs move a machine to PROVISIONING. The state that lists show may differ from
the phase: docs/states.md.

RETIRED is final, so the command asks for confirmation: the id of the machine. Without a terminal it requires --yes.`,
		Example: `  holdfast machine set-phase m-123 MAINTENANCE --comment "fan 3 is loud, ticket 4711"
  holdfast machine set-phase m-123 in-service`,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := phase("PHASE", args[1])
			if err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				before, err := kinds.GetMachine(ctx, c, args[0])
				if err != nil {
					return app.Failed(err, "set phase of machine %s to %s", args[0], to)
				}
				if ok.DryRun {
					a.Note("dry run: %s", phaseLoss(before, to))
					return output.PrintOne(a, &o, kinds.Machine(), before)
				}
				// The server refuses a move of a machine with an active run.
				if s := before.GetStatus(); to == holdfastv1.MachineStatus_RETIRED && s.GetPhase() != to &&
					s.GetActiveRunId() == "" {
					if err := ok.Obtain(ctx, a, cmd.CommandPath(), phaseLoss(before, to), args[0]); err != nil {
						return err
					}
				}
				m, err := c.Machines().SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{MachineId: args[0],
					Phase: to, Comment: comment})
				if err != nil {
					return app.Failed(err, "set phase of machine %s to %s", args[0], to)
				}
				if !o.Table() {
					return output.PrintOne(a, &o, kinds.Machine(), m)
				}
				_, err = fmt.Fprintln(a.Out, movedSentence(before, m))
				return err
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Machine())...)
	ok.Register(cmd, "show the machine, and do not move it")
	cmd.Flags().StringVar(&comment, "comment", "", "reason, kept in the machine's history")
	return cmd
}

// phaseLoss returns the effect of a move: "retire machine m-1, IN_SERVICE: RETIRED is final".
func phaseLoss(m *holdfastv1.Machine, to holdfastv1.MachineStatus_Phase) string {
	if to != holdfastv1.MachineStatus_RETIRED {
		return fmt.Sprintf("move machine %s from %s to %s", m.GetMachineId(), m.GetStatus().GetPhase(), to)
	}
	return fmt.Sprintf("retire machine %s, %s: RETIRED is final", m.GetMachineId(), m.GetStatus().GetPhase())
}

// movedSentence states a change of a machine's phase, and why its state differs from it.
func movedSentence(before, m *holdfastv1.Machine) string {
	from, to := before.GetStatus().GetPhase(), m.GetStatus().GetPhase()
	text := fmt.Sprintf("%s: phase %s -> %s", m.GetMachineId(), from, to)
	if from == to {
		text = fmt.Sprintf("%s: phase %s, as before", m.GetMachineId(), to)
	}
	if shown := describe.ShownAs(m); shown != "" {
		text += "; " + shown
	}
	return text
}

func machineBMCRetry(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Machine]{
		Verb: "bmc-retry", Done: "allowed logins to the BMC of", Kind: kinds.Machine(), Unasked: true,
		Short: "Log in again to BMCs that refused the account",
		Long: `Log in again to the BMCs of machines that refused their account. After two refused logins an account is left alone,
because another one might lock it, and one login is tried every 30 minutes. Use this when the account works again.`,
		Example: `  holdfast machine bmc-retry m-123
  holdfast machine bmc-retry $(holdfast machine list --filter 'rack = r7' -o name)`,
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Machines().RetryBmc(ctx, &holdfastv1.RetryBmcRequest{MachineId: id})
			return err
		},
	})
}

func machineDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Machine]{
		Kind:  kinds.Machine(),
		Short: "Delete machines that have no active run",
		Long:  "Delete machines that have no active run. Their runs and history stay.",
		Example: `  holdfast machine delete m-123
  holdfast machine delete $(holdfast machine list --filter 'phase = RETIRED' -o name)`,
		Note: func(m []*holdfastv1.Machine) string {
			if text := start.MachineStates(m); text != "" {
				return " (" + text + ")"
			}
			return ""
		},
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Machines().DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: id})
			return err
		},
	})
}

// phaseNames completes phases.
func phaseNames(context.Context, *client.Client) []string {
	return app.Mapped(app.EnumNames(holdfastv1.MachineStatus_Phase_name), func(name string) string {
		return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	})
}
