package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runStart(a *app.App) *cobra.Command {
	var (
		o      output.Flags
		wait   start.WaitFlag
		req    holdfastv1.StartRunRequest
		values []string
		many   start.WaveFlags
		ok     prompt.Consent
	)
	cmd := &cobra.Command{
		Use:                   "start (MACHINE | --selector FILTER) (--type TYPE | --plan PLAN)",
		DisableFlagsInUseLine: true,
		Args:                  app.Between(0, 1, "MACHINE"),
		ValidArgsFunction:     a.Complete(kinds.Machine().Names),
		Short:                 "Start a run on a machine, or a wave of runs on many",
		Long: `Start a run on a machine: a type with its default plan, or a plan.

The same --request-id on the same machine always returns the same run, from any peer: if you do not know whether
the command succeeded, repeat it with the same id. By default an id is generated and printed to standard error.
A machine has at most one active run.

With --selector (a filter) or -l (labels) it is a wave: a run on each matching machine, at most --max-parallel at a time. No more runs
start once more than --max-failures have failed, were canceled or could not start. The leader drives the wave, and the
command follows it: after Ctrl-C or with --detach it continues, and 'wave watch' or the same command with --wave ID follows
it. The exit code is 5 unless all runs succeeded.

If the plan destroys data, or interrupts a machine that is in service, the command asks for confirmation: the id of the
machine, or the number of machines. Without a terminal it requires --yes.

--dry-run makes the checks of the start, prints the machines and the effect on them, and starts nothing. It does not check
whether the steps would succeed: 'plan validate --dry-run' does.`,
		Example: `  holdfast run start m-123 --type REPAVE --param image=ubuntu-24.04 --wait
  holdfast run start m-123 --type REPAVE --dry-run
  holdfast run start m-123 --type REBOOT --request-id ticket-4711
  holdfast run start m-123 --plan plan-repave-ubuntu-2204-v1 --wait=45m
  holdfast run start -l env=prod,!canary --type REBOOT --max-parallel 5
  holdfast run start --selector 'pool = gpu AND phase = READY' --type REPAVE --max-parallel 20 --max-failures 2 --wait
  run=$(holdfast run start m-123 --type REBOOT -o name) && holdfast run logs -f "$run"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.Check(cmd, args, &req); err != nil {
				return err
			}
			if req.Type == "" && req.PlanId == "" {
				return app.Usagef("%s: give --type (REPAVE, REBOOT, RMA, UPGRADE, NET_RECONFIG) or --plan",
					cmd.CommandPath())
			}
			var err error
			if req.Params, err = app.Params(values); err != nil {
				return err
			}
			if ok.DryRun {
				return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
					machines, err := many.Machines(ctx, c, args)
					if err != nil {
						return err
					}
					if many.Selector == "" {
						req.MachineId = args[0]
						return start.Preview(ctx, a, c, &o, &req, machines, nil)
					}
					if len(machines) == 0 {
						return app.Exitf(app.ExitNotFound, "start a wave: no machine matches %q", many.Selector)
					}
					return start.Preview(ctx, a, c, &o, &req, machines, many.Request(&req, machines))
				})(cmd, args)
			}
			if many.Selector != "" {
				return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
					return startWave(ctx, a, c, &o, &req, many, wait.Limit, func(machines []*holdfastv1.Machine) error {
						return start.AllowWave(ctx, a, c, cmd.CommandPath(), ok, &req, machines)
					})
				})(cmd, args)
			}
			req.MachineId = args[0]
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := start.AllowRun(ctx, a, c, cmd.CommandPath(), ok, &req); err != nil {
					return err
				}
				req.RequestId = start.RequestID(a, req.GetRequestId())
				return start.Run(ctx, a, c, &o, &req, wait, nil)
			})(cmd, args)
		},
	}
	o.Register(cmd, kinds.Started()...)
	wait.Register(cmd, start.WaitForRun)
	many.Register(cmd)
	f := cmd.Flags()
	f.StringVar(&req.Type, "type", "", "`type` of the run: REPAVE, REBOOT, RMA, UPGRADE or NET_RECONFIG, in upper or lower case")
	f.StringVar(&req.PlanId, "plan", "", "plan to run instead of the type's default plan")
	f.StringArrayVar(&values, "param", nil,
		"parameter `key=value` of the run (plan get lists those of a plan); repeatable")
	f.StringVar(&req.RequestId, "request-id", "",
		"request id that makes a repeated start safe (default: generated and printed)")
	ok.Register(cmd, "show the machines and the effects of the plan, and start nothing")
	app.OneOf(cmd, "type", "REPAVE", "REBOOT", "RMA", "UPGRADE", "NET_RECONFIG")
	a.CompleteFlag(cmd, "plan", kinds.Plan().Names)
	return cmd
}
