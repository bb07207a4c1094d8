package run

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func waveRetry(a *app.App) *cobra.Command {
	var o output.Flags
	var ok prompt.Consent
	var detach bool
	var wait start.WaitFlag
	req := &holdfastv1.RetryWaveRequest{}
	var parallel, failures int32
	cmd := &cobra.Command{
		Use: "retry WAVE", Args: app.Exactly("WAVE"), ValidArgsFunction: a.Complete(kinds.Wave().Names),
		Short: "Start a wave on the machines of another one that have not succeeded",
		Long: `Start a wave like WAVE, which must have ended, on its machines that have not succeeded: those that failed, were canceled, could
not start, or were not started. It is a new wave, with the plan, parameters and limits of WAVE. If the plan destroys data, or
interrupts a machine that is in service, the command asks for confirmation; without a terminal it requires --yes.`,
		Example: "  holdfast wave retry wave-6f1c\n  holdfast wave retry wave-6f1c --max-failures 3 --detach",
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		req.WaveId, req.MaxParallel = args[0], parallel
		if cmd.Flags().Changed("max-failures") {
			req.MaxFailures = &failures
		}
		if req.GetRequestId() == "" {
			req.RequestId = start.NewWaveID()
		}
		req.ValidateOnly = true
		w, err := c.Waves().RetryWave(ctx, req)
		if err != nil {
			return app.Failed(err, "retry wave %s", args[0])
		}
		if err := allowRetry(ctx, a, c, &o, cmd.CommandPath(), ok, w); err != nil || ok.DryRun {
			return err
		}
		req.ValidateOnly = false
		if w, err = c.Waves().RetryWave(ctx, req); err != nil {
			return app.Failed(err, "retry wave %s", args[0])
		}
		return startedWave(ctx, a, c, w, detach, wait.Limit, func(w *holdfastv1.Wave) error {
			return printWave(a, &o, w)
		})
	})
	o.Register(cmd, kinds.Started()...)
	ok.Register(cmd, "show the machines and the effects of the plan, and start nothing")
	wait.Register(cmd, waitForWave)
	f := cmd.Flags()
	f.BoolVar(&detach, "detach", false, "do not wait for the wave")
	f.Int32Var(&parallel, "max-parallel", 0, "maximum number of active runs (0: as before)")
	f.Int32Var(&failures, "max-failures", 0, "number of failed runs after which no more start (default: as before)")
	f.StringVar(&req.RequestId, "request-id", "",
		"id of the new wave, which makes a repeated retry safe (default: generated)")
	return cmd
}

// allowRetry shows the machines of a wave that would start, or blocks until the operator has
// confirmed it.
func allowRetry(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, path string, ok prompt.Consent,
	w *holdfastv1.Wave) error {
	if ok.Given() {
		return nil
	}
	req := &holdfastv1.StartRunRequest{Type: w.GetType(), PlanId: w.GetPlanId(), Params: w.GetParams()}
	member := map[string]bool{}
	for _, m := range w.GetMachines() {
		member[m.GetMachineId()] = true
	}
	machines, err := kinds.ListMachines(ctx, c, &output.Listing{})
	if err != nil {
		return err
	}
	machines = slices.DeleteFunc(machines, func(m *holdfastv1.Machine) bool { return !member[m.GetMachineId()] })
	if ok.DryRun {
		plan, err := start.PlanOf(ctx, c, req)
		if err != nil {
			return err
		}
		if err := output.PrintList(a, o, kinds.Machine(), machines); err != nil {
			return err
		}
		a.Note("dry run: %s: %s: %s", start.MachineCount(machines), plan.GetPlanId(), start.Effects(plan, w.GetParams()))
		return start.RefusedStarts(w)
	}
	return start.AllowWave(ctx, a, c, path, ok, req, machines)
}
