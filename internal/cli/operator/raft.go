package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func operatorRaft(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:     "raft",
		Short:   "Manage the members of the Raft cluster, and verify their data",
		Example: "  holdfast operator raft list-peers",
	}, raftListPeers(a), raftTransfer(a), raftRemove(a), raftVerify(a))
}

func raftListPeers(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "list-peers", Args: app.Exactly(),
		Short:   "List the peers of the Raft configuration",
		Example: "  holdfast operator raft list-peers -o wide",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := kinds.GetClusterStatus(ctx, c)
			if err != nil {
				return app.Failed(err, "list peers")
			}
			return output.PrintList(a, &o, kinds.Peer(s), s.GetPeers())
		}),
	}
	o.Register(cmd)
	return cmd
}

func raftTransfer(a *app.App) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "transfer-leadership", Args: app.Exactly(),
		Short: "Transfer the leadership to another voter",
		Example: `  holdfast operator raft transfer-leadership
  holdfast operator raft transfer-leadership --to n2`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Operator().TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: to})
			if err != nil {
				return app.Failed(err, "transfer leadership")
			}
			_, err = fmt.Fprintf(a.Out, "%s leads now, %s has handed over (%s)\n", r.GetTo(), r.GetFrom(),
				r.GetTook().AsDuration().Round(time.Millisecond))
			return err
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "next leader, a `peer` (default: the one with the newest log)")
	return cmd
}

func operatorAutopilot(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:     "autopilot",
		Short:   "Show and configure automatic membership changes",
		Example: "  holdfast operator autopilot state",
	}, autopilotState(a), autopilotGet(a), autopilotSet(a))
}

func autopilotState(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "state", Args: app.Exactly(),
		Short:   "Show the health of the peers (exit code 7 if one is unhealthy)",
		Example: "  holdfast operator autopilot state",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
			if err != nil {
				return app.Failed(err, "get the state of autopilot")
			}
			if err := printAutopilot(a, &o, s); err != nil {
				return err
			}
			if !s.GetHealthy() {
				return app.Exitf(app.ExitUnavailable, "autopilot: not all peers are healthy, %d may fail",
					s.GetFailureTolerance())
			}
			return nil
		}),
	}
	o.Register(cmd)
	return cmd
}

func printAutopilot(a *app.App, o *output.Flags, s *holdfastv1.Autopilot) error {
	if o.Structured() {
		return output.PrintOne(a, o, output.Kind[*holdfastv1.Autopilot]{}, s)
	}
	return output.PrintList(a, o, autopilotKind(), s.GetPeers())
}

func autopilotKind() output.Kind[*holdfastv1.AutopilotPeer] {
	return output.Kind[*holdfastv1.AutopilotPeer]{
		List: "peers", Name: (*holdfastv1.AutopilotPeer).GetId,
		Header: []string{"PEER", "SUFFRAGE", "WELL", "SINCE", "BEHIND", "REMOVED AFTER", "WHY"},
		Row: func(p *holdfastv1.AutopilotPeer, now time.Time) []any {
			well := render.T("yes", render.Green)
			if !p.GetHealthy() {
				well = render.T("no", render.Red)
			}
			since, removed := "", ""
			if p.GetSince() != nil {
				since = now.Sub(p.GetSince().AsTime()).Round(time.Second).String()
			}
			if p.GetRemovedAfter() != nil {
				removed = p.GetRemovedAfter().AsTime().UTC().Format(time.RFC3339)
			}
			return []any{
				p.GetId(), p.GetSuffrage(), well, since, app.Number(p.GetBehind()), removed, p.GetWhy(),
			}
		},
	}
}

func autopilotGet(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "get-config", Args: app.Exactly(),
		Short:   "Show the autopilot configuration",
		Example: "  holdfast operator autopilot get-config",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
			if err != nil {
				return app.Failed(err, "get the configuration of autopilot")
			}
			return printRules(a, s.GetConfig())
		}),
	}
}

func printRules(a *app.App, c *holdfastv1.AutopilotConfig) error {
	_, err := fmt.Fprintf(a.Out,
		"cleanup-dead-servers   %t\ndead-server-threshold  %s\nmin-quorum             %d\nstabilization-time     %s\n",
		c.GetCleanupDeadServers(), c.GetDeadServerThreshold().AsDuration(), c.GetMinQuorum(),
		c.GetStabilizationTime().AsDuration())
	return err
}

func autopilotSet(a *app.App) *cobra.Command {
	var cleanup bool
	var dead, stable time.Duration
	var quorum uint32
	cmd := &cobra.Command{
		Use: "set-config", Args: app.Exactly(),
		Short: "Change the autopilot configuration; omitted flags keep their value",
		Example: `  holdfast operator autopilot set-config --cleanup-dead-servers --dead-server-threshold 2h --min-quorum 3
  holdfast operator autopilot set-config --cleanup-dead-servers=false`,
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
		if err != nil {
			return app.Failed(err, "get the configuration of autopilot")
		}
		rules, given := s.GetConfig(), cmd.Flags().Changed
		if given("cleanup-dead-servers") {
			rules.CleanupDeadServers = cleanup
		}
		if given("dead-server-threshold") {
			rules.DeadServerThreshold = durationpb.New(dead)
		}
		if given("min-quorum") {
			rules.MinQuorum = quorum
		}
		if given("stabilization-time") {
			rules.StabilizationTime = durationpb.New(stable)
		}
		if s, err = c.Operator().SetAutopilot(ctx, &holdfastv1.SetAutopilotRequest{Config: rules}); err != nil {
			return app.Failed(err, "set the configuration of autopilot")
		}
		return printRules(a, s.GetConfig())
	})
	cmd.Flags().BoolVar(&cleanup, "cleanup-dead-servers", false,
		"remove peers that have been dead for longer than the threshold")
	cmd.Flags().DurationVar(&dead, "dead-server-threshold", 24*time.Hour,
		"`time` that a peer must be dead, as seen by one leader, before it is removed")
	cmd.Flags().Uint32Var(&quorum, "min-quorum", 3, "minimum `number` of voters that a removal leaves")
	cmd.Flags().DurationVar(&stable, "stabilization-time", 0,
		"`time` that a new peer must keep up with the log before it votes")
	return cmd
}
