package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// completer lists the possible values of an argument.
type completer func(ctx context.Context, c *client.Client) []string

// complete completes the arguments, one completer for each. A shell must not hang, so it uses
// the peer's own state, or returns nothing.
func (a *app) complete(args ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) >= len(args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.globals.timeout = min(a.globals.timeout, 2*time.Second)
		c, err := a.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer func() { _ = c.Close() }()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx = client.WithConsistency(ctx, client.Consistency{Stale: true})
		return args[len(given)](ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeAll completes any number of arguments and leaves out those already present.
func (a *app) completeAll(all completer) cobra.CompletionFunc {
	one := a.complete(all)
	return func(cmd *cobra.Command, given []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := one(cmd, nil, part)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(given, n) }), directive
	}
}

func machineIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetMachines(), (*holdfastv1.Machine).GetMachineId)
}

func peerIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		return nil
	}
	return ids(r.GetPeers(), (*holdfastv1.Peer).GetId)
}

func planIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Plans().ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetPlans(), (*holdfastv1.Plan).GetPlanId)
}

func runIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetRuns(), (*holdfastv1.Run).GetRunId)
}

func ids[M any](items []M, id func(M) string) []string {
	out := make([]string, len(items))
	for i, m := range items {
		out[i] = id(m)
	}
	return out
}
