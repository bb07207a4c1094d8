package kinds

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// GetClusterStatus returns the status of the cluster as the answering peer sees it.
func GetClusterStatus(ctx context.Context, c *client.Client) (*holdfastv1.ClusterStatus, error) {
	s, err := c.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
	return s, app.Failed(err, "get cluster status")
}

// Peer returns the kind of the peers of a cluster.
func Peer(s *holdfastv1.ClusterStatus) output.Kind[*holdfastv1.Peer] {
	return output.Kind[*holdfastv1.Peer]{
		List:   "peers",
		Name:   (*holdfastv1.Peer).GetId,
		Header: []string{"PEER", "ROLE", "ALIVE", "VERSION", "APPLIED", "LAST CONTACT", "GRPC", "ERROR"},
		Wide:   []string{"TERM", "BEHIND", "LAST INDEX", "LEVEL", "HTTP", "RAFT", "GOSSIP", "CERTIFICATE"},
		Row: func(p *holdfastv1.Peer, now time.Time) []any {
			role := p.GetSuffrage()
			if p.GetLeader() || p.GetId() != "" && p.GetId() == s.GetLeader() {
				role = "leader"
			}
			alive := render.T("yes", render.Green)
			if !p.GetAlive() {
				alive = render.T(away(p, now), render.Red)
			}
			return []any{
				p.GetId(), render.State(role), alive, p.GetVersion(), app.Number(p.GetAppliedIndex()),
				lastContact(p, role), p.GetGrpcAddr(), render.T(Trouble(p), render.Red),
				app.Number(p.GetTerm()), app.Number(p.GetBehind()), app.Number(p.GetLastIndex()),
				app.Number(p.GetMaxFeatureLevel()), p.GetHttpAddr(), p.GetRaftAddr(), p.GetGossipAddr(), certificate(p),
			}
		},
	}
}

// Trouble returns the reason why a peer does not count, or "".
func Trouble(p *holdfastv1.Peer) string {
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
	switch at := app.Stamp(p.GetCertificateNotAfter()); {
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
	return "no (" + app.Age(now, p.GetAwaySince()) + ")"
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

// VersionTable prints the version of each peer.
func VersionTable(a *app.App, o *output.Flags, s *holdfastv1.ClusterStatus) error {
	t := render.NewTable("PEER", "VERSION", "LEVEL", "ERROR")
	for _, p := range s.GetPeers() {
		t.Row(p.GetId(), p.GetVersion(), app.Number(p.GetMaxFeatureLevel()),
			render.T(p.GetError(), render.Red))
	}
	_, err := io.WriteString(a.Painted(), "\n"+t.Format(a.Color(a.Out), !o.NoHeaders))
	return err
}

// Unsafe returns the reason why no peer may be lost, or "".
func Unsafe(s *holdfastv1.ClusterStatus) string {
	if s.GetLeader() == "" {
		return "there is no leader"
	}
	if s.GetFailureTolerance() > 0 {
		return ""
	}
	for _, p := range s.GetPeers() {
		if t := Trouble(p); t != "" {
			return fmt.Sprintf("peer %s: %s", p.GetId(), t)
		}
	}
	return "there are too few voters for one of them to fail"
}

// PeerIDs completes the id of a peer.
func PeerIDs(ctx context.Context, c *client.Client) []string {
	r, err := GetClusterStatus(ctx, c)
	if err != nil {
		return nil
	}
	return app.Mapped(r.GetPeers(), (*holdfastv1.Peer).GetId)
}
