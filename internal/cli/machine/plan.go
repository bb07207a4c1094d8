package machine

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

// machinePlan describes a command that runs a built-in plan on one machine. An operation of an
// operator is a run, so that it is recorded, excludes other runs, and is safe to repeat with its
// request id.
type machinePlan struct {
	// plan returns the id of the plan for the arguments, and the parameters of the run.
	plan func(args []string) (id string, params map[string]string, err error)
	// show prints the result instead of the run; nil prints the run.
	show func(ctx context.Context, c *client.Client, o *output.Flags, r *holdfastv1.Run) error
	// asks is whether the plan may interrupt the machine: then a confirmation is needed.
	asks bool
}

// machinePlanCommand completes cmd, whose first argument is the machine, with the flags and the
// action of such a command.
func machinePlanCommand(a *app.App, cmd *cobra.Command, v machinePlan) *cobra.Command {
	var o output.Flags
	var request string
	var detach bool
	var ok prompt.Consent
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = a.Complete(kinds.Machine().Names)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, params, err := v.plan(args)
		if err != nil {
			return err
		}
		req := &holdfastv1.StartRunRequest{MachineId: args[0], PlanId: plan, Params: params,
			RequestId: request}
		return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			if ok.DryRun {
				m, err := kinds.GetMachine(ctx, c, req.GetMachineId())
				if err != nil {
					return err
				}
				return start.Preview(ctx, a, c, &o, req, []*holdfastv1.Machine{m}, nil)
			}
			if v.asks {
				if err := start.AllowRun(ctx, a, c, cmd.CommandPath(), ok, req); err != nil {
					return err
				}
			}
			req.RequestId = start.RequestID(a, request)
			var show func(*holdfastv1.Run) error
			if v.show != nil {
				show = func(r *holdfastv1.Run) error { return v.show(ctx, c, &o, r) }
			}
			return start.Run(ctx, a, c, &o, req, start.WaitFlag{Given: !detach}, show)
		})(cmd, args)
	}
	o.Register(cmd, kinds.Started()...)
	cmd.Flags().StringVar(&request, "request-id", "",
		"request id that makes a repeated call safe (default: generated and printed)")
	if v.asks {
		ok.Register(cmd, "make the checks of the start, show the effect, and start nothing")
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for the end of the run")
	return cmd
}

// fixedPlan returns the function plan of a command whose plan has no parameters.
func fixedPlan(id string) func([]string) (string, map[string]string, error) {
	return func([]string) (string, map[string]string, error) { return id, nil, nil }
}

// switches returns the parameters of the flags that are set.
func switches(flags map[string]*bool) map[string]string {
	params := map[string]string{}
	for name, set := range flags {
		if *set {
			params[name] = "true"
		}
	}
	return params
}
