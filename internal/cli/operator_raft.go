package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func operatorRaft(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use:     "raft",
		Short:   "Manage the members of the Raft cluster, and verify their data",
		Example: "  holdfast operator raft list-peers",
	}, raftListPeers(a), raftTransfer(a), raftRemove(a), raftVerify(a))
}

func raftListPeers(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "list-peers", Args: exactly(),
		Short:   "List the peers of the Raft configuration",
		Example: "  holdfast operator raft list-peers -o wide",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := getClusterStatus(ctx, c)
			if err != nil {
				return failed(err, "list peers")
			}
			return printList(a, &o, peerKind(s), s.GetPeers())
		}),
	}
	o.register(cmd)
	return cmd
}

func raftTransfer(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "transfer-leadership", Args: exactly(),
		Short: "Transfer the leadership to another voter",
		Example: `  holdfast operator raft transfer-leadership
  holdfast operator raft transfer-leadership --to n2`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := c.Operator().TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: to})
			if err != nil {
				return failed(err, "transfer leadership")
			}
			_, err = fmt.Fprintf(a.Out, "%s leads now, %s has handed over (%s)\n", r.GetTo(), r.GetFrom(),
				r.GetTook().AsDuration().Round(time.Millisecond))
			return err
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "next leader, a `peer` (default: the one with the newest log)")
	return cmd
}

func operatorAutopilot(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use:     "autopilot",
		Short:   "Show and configure automatic membership changes",
		Example: "  holdfast operator autopilot state",
	}, autopilotState(a), autopilotGet(a), autopilotSet(a))
}

func autopilotState(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "state", Args: exactly(),
		Short:   "Show the health of the peers (exit code 7 if one is unhealthy)",
		Example: "  holdfast operator autopilot state",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
			if err != nil {
				return failed(err, "get the state of autopilot")
			}
			if err := printAutopilot(a, &o, s); err != nil {
				return err
			}
			if !s.GetHealthy() {
				return exitf(ExitUnavailable, "autopilot: not all peers are healthy, %d may fail",
					s.GetFailureTolerance())
			}
			return nil
		}),
	}
	o.register(cmd)
	return cmd
}

func printAutopilot(a *app, o *output, s *holdfastv1.Autopilot) error {
	if o.structured() {
		return printOne(a, o, kind[*holdfastv1.Autopilot]{}, s)
	}
	return printList(a, o, autopilotKind(), s.GetPeers())
}

func autopilotKind() kind[*holdfastv1.AutopilotPeer] {
	return kind[*holdfastv1.AutopilotPeer]{
		list: "peers", name: (*holdfastv1.AutopilotPeer).GetId,
		header: []string{"PEER", "SUFFRAGE", "WELL", "SINCE", "BEHIND", "REMOVED AFTER", "WHY"},
		row: func(p *holdfastv1.AutopilotPeer, now time.Time) []any {
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
				p.GetId(), p.GetSuffrage(), well, since, number(p.GetBehind()), removed, p.GetWhy(),
			}
		},
	}
}

func autopilotGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get-config", Args: exactly(),
		Short:   "Show the autopilot configuration",
		Example: "  holdfast operator autopilot get-config",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
			if err != nil {
				return failed(err, "get the configuration of autopilot")
			}
			return printRules(a, s.GetConfig())
		}),
	}
}

func printRules(a *app, c *holdfastv1.AutopilotConfig) error {
	_, err := fmt.Fprintf(a.Out,
		"cleanup-dead-servers   %t\ndead-server-threshold  %s\nmin-quorum             %d\nstabilization-time     %s\n",
		c.GetCleanupDeadServers(), c.GetDeadServerThreshold().AsDuration(), c.GetMinQuorum(),
		c.GetStabilizationTime().AsDuration())
	return err
}

func autopilotSet(a *app) *cobra.Command {
	var cleanup bool
	var dead, stable time.Duration
	var quorum uint32
	cmd := &cobra.Command{
		Use: "set-config", Args: exactly(),
		Short: "Change the autopilot configuration; omitted flags keep their value",
		Example: `  holdfast operator autopilot set-config --cleanup-dead-servers --dead-server-threshold 2h --min-quorum 3
  holdfast operator autopilot set-config --cleanup-dead-servers=false`,
	}
	cmd.RunE = a.online(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Operator().GetAutopilot(ctx, &holdfastv1.GetAutopilotRequest{})
		if err != nil {
			return failed(err, "get the configuration of autopilot")
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
			return failed(err, "set the configuration of autopilot")
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
