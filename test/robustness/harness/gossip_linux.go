package harness

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ErrNoGossip means that the peer does not accept the gossip key, or that its answer cannot
// be decrypted.
var ErrNoGossip = errors.New("no gossip under this key")

// listener records an answer of a peer's gossip, and refuses to join.
type listener struct{ heard bool }

var errHeard = errors.New("received an answer")

// NotifyMerge implements memberlist.MergeDelegate.
func (l *listener) NotifyMerge([]*memberlist.Node) error { l.heard = true; return errHeard }

// Gossips asks a peer for its view of the members, encrypted with the first of the keys,
// and decrypts answers with any of them. It returns ErrNoGossip if there was no answer. The
// peer's state does not change, because this process is not a peer.
func (c *Cluster) Gossips(p *localcluster.Peer, keys ...string) error {
	ring, err := keyring(keys)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(c.own())
	if err != nil {
		return err
	}
	l := &listener{}
	cfg := memberlist.DefaultLANConfig()
	cfg.Name, cfg.Label, cfg.Keyring, cfg.Merge = "listener", "holdfast", ring, l
	cfg.BindAddr, cfg.BindPort, cfg.AdvertisePort = host, 0, 0
	cfg.TCPTimeout, cfg.LogOutput = 2*time.Second, io.Discard
	cfg.GossipInterval, cfg.ProbeInterval, cfg.PushPullInterval = 0, 0, 0 // it sends only on request
	m, err := memberlist.Create(cfg)
	if err != nil {
		return fmt.Errorf("listen for gossip: %w", err)
	}
	_, err = m.Join([]string{p.GossipAddr})
	if serr := m.Shutdown(); serr != nil {
		return serr
	}
	if l.heard {
		return nil
	}
	return fmt.Errorf("%w: peer %s: %w", ErrNoGossip, p.ID, err)
}

func keyring(keys []string) (*memberlist.Keyring, error) {
	var all [][]byte
	for _, k := range keys {
		b, err := base64.StdEncoding.DecodeString(k)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return memberlist.NewKeyring(all, all[0])
}

// own returns an address of this process that peers can reach.
func (c *Cluster) own() string {
	if c.Net == nil {
		return "127.0.0.1:0"
	}
	return net.JoinHostPort(c.Net.Addr(c.Net.Driver()), "0")
}

// status returns the cluster status of one peer.
func (c *Cluster) status(ctx context.Context, p *localcluster.Peer) (*holdfastv1.ClusterStatus, error) {
	ctx, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	conn, err := grpc.NewClient("passthrough:///"+p.GRPCAddr, grpc.WithTransportCredentials(c.Credentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return holdfastv1.NewClusterServiceClient(conn).GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
}

// AliveTo returns which peers a peer considers alive.
func (c *Cluster) AliveTo(ctx context.Context, p *localcluster.Peer) (map[string]bool, error) {
	st, err := c.status(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("ask peer %s for its live members: %w", p.ID, err)
	}
	alive := map[string]bool{}
	for _, m := range st.GetPeers() {
		if m.GetSuffrage() != "none" {
			alive[m.GetId()] = m.GetAlive()
		}
	}
	return alive, nil
}

// Term returns the highest term that any peer knows.
func (c *Cluster) Term(ctx context.Context) (uint64, error) {
	var most uint64
	for _, p := range c.Peers() {
		if st, err := c.status(ctx, p); err == nil {
			most = max(most, st.GetTerm())
		}
	}
	if most == 0 {
		return 0, errors.New("no peer returns its term")
	}
	return most, nil
}
