package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of the cluster.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:     "cluster",
		Short:   "Show and test the control plane",
		Example: "  holdfast cluster status",
	}, clusterStatus(a), clusterSafe(a), clusterDrill(a))
}

func clusterStatus(a *app.App) *cobra.Command {
	var o output.Flags
	var until start.WaitFlag
	cmd := &cobra.Command{
		Use: "status", Args: app.Exactly(),
		Short: "Show the peers, the leader and how many peers may fail",
		Long: `Show the peers, the leader and how many peers may fail, as seen by the peer that answers. It works without a
leader; the exit code is then 7. With --wait it first waits for a leader, for scripts that start peers.`,
		Example: `  holdfast cluster status
  holdfast cluster status --wait=1m
  holdfast cluster status -o json`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := leaderStatus(ctx, a, c, until)
			if err != nil {
				return err
			}
			if err := printStatus(a, &o, s); err != nil {
				return err
			}
			if s.GetLeader() == "" {
				return app.Exitf(app.ExitUnavailable, "cluster status: %s", noLeader(s))
			}
			return nil
		}),
	}
	o.Register(cmd)
	until.Register(cmd, "wait until there is a leader, for at most this time if one is given (--wait=1m)")
	return cmd
}

// noLeader returns the reason why there is no leader. A peer reports none until it has found it.
func noLeader(s *holdfastv1.ClusterStatus) string {
	why := cmp.Or(render.Clean(s.GetProblem()), "no leader: writes wait until a majority of the voters reach each other")
	return fmt.Sprintf("%s (according to %s)", why, cmp.Or(render.Clean(s.GetAnsweredBy()), "the peer asked"))
}

// statusPause is the pause between two polls for a leader: elections take about a second.
const statusPause = 200 * time.Millisecond

// leaderStatus returns the first status that has a leader if the flag is set, else the first
// status. After the time limit it returns the last one. It also waits for peers that do not
// answer yet.
func leaderStatus(
	ctx context.Context, a *app.App, c *client.Client, flag start.WaitFlag,
) (*holdfastv1.ClusterStatus, error) {
	patience, cancel := a.Patience(ctx, flag.Limit)
	defer cancel()
	if flag.Given {
		end, _ := patience.Deadline()
		ctx = app.WithLongWait(ctx, end)
	}
	for {
		s, err := kinds.GetClusterStatus(ctx, c)
		absent := err == nil && s.GetLeader() == "" || status.Code(err) == codes.Unavailable
		if !flag.Given || !absent || patience.Err() != nil {
			return s, err
		}
		_ = wait.Sleep(patience, statusPause)
	}
}

func printStatus(a *app.App, o *output.Flags, s *holdfastv1.ClusterStatus) error {
	if o.Format == output.FormatName {
		return output.PrintNames(a, kinds.Peer(s), s.GetPeers())
	}
	if !o.Table() {
		return output.PrintOne(a, o, output.Kind[*holdfastv1.ClusterStatus]{}, s)
	}
	_, err := fmt.Fprintf(a.Out,
		"cluster %s: leader %s, term %d, feature level %d, %d may fail (according to %s)\nnewest backup: %s\n\n",
		cmp.Or(render.Clean(s.GetClusterId()), "-"), cmp.Or(render.Clean(s.GetLeader()),
			"none"), s.GetTerm(), s.GetFeatureLevel(),
		s.GetFailureTolerance(), cmp.Or(render.Clean(s.GetAnsweredBy()), "-"),
		cmp.Or(app.Age(a.Now(), s.GetLastBackupAt()), "none; make one with holdfast operator snapshot save FILE"))
	if err != nil {
		return err
	}
	return output.PrintList(a, o, kinds.Peer(s), s.GetPeers())
}
