package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func clusterCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use:     "cluster",
		Short:   "Show and test the control plane",
		Example: "  holdfast cluster status",
	}, clusterStatus(a), clusterSafe(a), clusterDrill(a))
}

func clusterStatus(a *app) *cobra.Command {
	var o output
	var until waitFlag
	cmd := &cobra.Command{
		Use: "status", Args: exactly(),
		Short: "Show the peers, the leader and how many peers may fail",
		Long: `Show the peers, the leader and how many peers may fail, as seen by the peer that answers. It works without a
leader; the exit code is then 7. With --wait it first waits for a leader, for scripts that start peers.`,
		Example: `  holdfast cluster status
  holdfast cluster status --wait=1m
  holdfast cluster status -o json`,
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := leaderStatus(ctx, a, c, until)
			if err != nil {
				return err
			}
			if err := printStatus(a, &o, s); err != nil {
				return err
			}
			if s.GetLeader() == "" {
				return &codeError{ExitUnavailable, "cluster status: " + noLeader(s)}
			}
			return nil
		}),
	}
	o.register(cmd)
	until.register(cmd, "wait until there is a leader, for at most this time if one is given (--wait=1m)")
	return cmd
}

func getClusterStatus(ctx context.Context, c *client.Client) (*holdfastv1.ClusterStatus, error) {
	s, err := c.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
	return s, failed(err, "get cluster status")
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
func leaderStatus(ctx context.Context, a *app, c *client.Client, flag waitFlag) (*holdfastv1.ClusterStatus, error) {
	patience, cancel := a.patience(ctx, flag.limit)
	defer cancel()
	if flag.set {
		long := &longWait{}
		long.end, _ = patience.Deadline()
		ctx = context.WithValue(ctx, longWaitKey{}, long)
	}
	for {
		s, err := getClusterStatus(ctx, c)
		absent := err == nil && s.GetLeader() == "" || status.Code(err) == codes.Unavailable
		if !flag.set || !absent || patience.Err() != nil {
			return s, err
		}
		_ = wait.Sleep(patience, statusPause)
	}
}

func printStatus(a *app, o *output, s *holdfastv1.ClusterStatus) error {
	if o.format == formatName {
		return printNames(a, peerKind(s), s.GetPeers())
	}
	if !o.table() {
		return printOne(a, o, kind[*holdfastv1.ClusterStatus]{}, s)
	}
	_, err := fmt.Fprintf(a.Out,
		"cluster %s: leader %s, term %d, feature level %d, %d may fail (according to %s)\nnewest backup: %s\n\n",
		cmp.Or(render.Clean(s.GetClusterId()), "-"), cmp.Or(render.Clean(s.GetLeader()),
			"none"), s.GetTerm(), s.GetFeatureLevel(),
		s.GetFailureTolerance(), cmp.Or(render.Clean(s.GetAnsweredBy()), "-"),
		cmp.Or(age(a.Now(), s.GetLastBackupAt()), "none; make one with holdfast operator snapshot save FILE"))
	if err != nil {
		return err
	}
	return printList(a, o, peerKind(s), s.GetPeers())
}

func peerKind(s *holdfastv1.ClusterStatus) kind[*holdfastv1.Peer] {
	return kind[*holdfastv1.Peer]{
		list:   "peers",
		name:   (*holdfastv1.Peer).GetId,
		header: []string{"PEER", "ROLE", "ALIVE", "VERSION", "APPLIED", "LAST CONTACT", "GRPC", "ERROR"},
		wide:   []string{"TERM", "BEHIND", "LAST INDEX", "LEVEL", "HTTP", "RAFT", "GOSSIP", "CERTIFICATE"},
		row: func(p *holdfastv1.Peer, now time.Time) []any {
			role := p.GetSuffrage()
			if p.GetLeader() || p.GetId() != "" && p.GetId() == s.GetLeader() {
				role = "leader"
			}
			alive := render.T("yes", render.Green)
			if !p.GetAlive() {
				alive = render.T(away(p, now), render.Red)
			}
			return []any{
				p.GetId(), render.State(role), alive, p.GetVersion(), number(p.GetAppliedIndex()),
				lastContact(p, role), p.GetGrpcAddr(), render.T(trouble(p), render.Red),
				number(p.GetTerm()), number(p.GetBehind()), number(p.GetLastIndex()),
				number(p.GetMaxFeatureLevel()), p.GetHttpAddr(), p.GetRaftAddr(), p.GetGossipAddr(), certificate(p),
			}
		},
	}
}

// trouble returns the reason why a peer does not count, or "".
func trouble(p *holdfastv1.Peer) string {
	if p.GetError() == "" && p.GetSuffrage() == "voter" && !p.GetMayVote() {
		return "does not vote yet: it catches up"
	}
	what := cmp.Or(p.GetError(), p.GetWaits(), p.GetWarning())
	if what != "" && p.GetNext() != "" {
		what += " (" + p.GetNext() + ")"
	}
	return what
}

// certificate returns the end of a peer's certificate, and whether the peer renews it.
func certificate(p *holdfastv1.Peer) string {
	switch at := stamp(p.GetCertificateNotAfter()); {
	case at == "":
		return ""
	case p.GetCertificateRenewed():
		return "until " + at + ", renewed by the peer"
	default:
		return "until " + at
	}
}

// away returns since when a peer is not alive: "no (5m ago)".
func away(p *holdfastv1.Peer, now time.Time) string {
	if p.GetAwaySince() == nil {
		return "no"
	}
	return "no (" + age(now, p.GetAwaySince()) + ")"
}

func lastContact(p *holdfastv1.Peer, role string) string {
	if role == "leader" || p.GetLastContactMs() < 0 || p.GetError() != "" {
		return ""
	}
	d := time.Duration(p.GetLastContactMs()) * time.Millisecond
	if d >= time.Second {
		return describe.Age(d)
	}
	return d.String()
}

// versionTable prints the version of each peer.
func versionTable(a *app, o *output, s *holdfastv1.ClusterStatus) error {
	t := render.NewTable("PEER", "VERSION", "LEVEL", "ERROR")
	for _, p := range s.GetPeers() {
		t.Row(p.GetId(), p.GetVersion(), number(p.GetMaxFeatureLevel()),
			render.T(p.GetError(), render.Red))
	}
	_, err := io.WriteString(a.painted(), "\n"+t.Format(a.color(a.Out), !o.noHeaders))
	return err
}
