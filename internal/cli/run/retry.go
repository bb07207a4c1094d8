package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runRetry(a *app.App) *cobra.Command {
	var o output.Flags
	var wait start.WaitFlag
	var request, filter string
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "retry (RUN | --filter FILTER)", DisableFlagsInUseLine: true, Args: app.Between(0, 1, "RUN"),
		ValidArgsFunction: a.Complete(kinds.Run().Names),
		Short:             "Start a run again, with its plan and parameters",
		Long: `Start a run like RUN, which must have ended: on the same machine, with the same plan and parameters. It
is a new run. The id of a machine stands for its last run. If you do not know whether the command succeeded, repeat it
with the --request-id that it printed: that returns the same run. If the plan destroys data, or interrupts a machine that is
in service, the command asks for confirmation; without a terminal it requires --yes.

--filter retries the last run of each machine, if it has ended without success and matches.`,
		Example: `  holdfast run retry run-789 --wait
  holdfast run retry --filter 'plan_id = plan/rma AND error.reason = DeadlineExceeded' --dry-run`,
	}
	one := a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		var r *holdfastv1.Run
		err := start.OfRun(ctx, a, c, args[0], func(id string) (err error) {
			r, err = kinds.GetRun(ctx, c, id)
			return err
		})
		if err != nil {
			return err
		}
		req, err := retryRequest(r)
		if err != nil {
			return err
		}
		if ok.DryRun {
			m, err := kinds.GetMachine(ctx, c, req.GetMachineId())
			if err != nil {
				return err
			}
			return start.Preview(ctx, a, c, &o, req, []*holdfastv1.Machine{m}, nil)
		}
		if err := start.AllowRun(ctx, a, c, cmd.CommandPath(), ok, req); err != nil {
			return err
		}
		req.RequestId = start.RequestID(a, request)
		return start.Run(ctx, a, c, &o, req, wait, nil)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case (len(args) == 0) == (filter == ""):
			return app.Usagef("%s: give either RUN or --filter: usage: %s", cmd.CommandPath(), cmd.UseLine())
		case filter == "":
			return one(cmd, args)
		case wait.Given:
			return app.Usagef("%s: --wait: only for one run: follow many with holdfast run watch --filter", cmd.CommandPath())
		}
		return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			return retryAll(ctx, a, c, &o, retryRuns{path: cmd.CommandPath(), filter: filter, request: request, ok: ok})
		})(cmd, args)
	}
	o.Register(cmd, kinds.Started()...)
	wait.Register(cmd, start.WaitForRun)
	ok.Register(cmd, "show the machine and the effects of the plan, and start nothing")
	cmd.Flags().StringVar(&filter, "filter", "", "retry the runs that match (AIP-160), e.g. 'plan_id = plan/rma'")
	cmd.Flags().StringVar(&request, "request-id", "",
		"request id that makes a repeated retry safe (default: generated and printed)")
	return cmd
}

// retryRequest returns the request for a run like one that has ended, without a request id.
func retryRequest(r *holdfastv1.Run) (*holdfastv1.StartRunRequest, error) {
	switch {
	case r.GetFinishedAt() == nil:
		return nil, app.Exitf(app.ExitConflict, "retry run %s: it is still %s: wait for its end, or cancel it",
			r.GetRunId(), r.GetPhase())
	case r.GetObserved():
		return nil, app.Exitf(app.ExitConflict, "retry run %s: another system executed it, not Holdfast",
			r.GetRunId())
	}
	req := &holdfastv1.StartRunRequest{MachineId: r.GetMachineId(), Type: r.GetType(), Params: r.GetParams()}
	if r.GetPlanId() != fsm.DefaultPlanID(r.GetType()) {
		req.PlanId = r.GetPlanId()
	}
	return req, nil
}
