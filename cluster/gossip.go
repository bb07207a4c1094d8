package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// member is what gossip knows about a peer.
type member struct {
	meta   *internalv1.GossipMeta // immutable
	gossip string                 // host:port
	alive  bool
}

// gossip finds peers and spreads their metadata. It decides nothing: a peer that it
// considers dead may only be unreachable from here.
type gossip struct {
	log     *slog.Logger
	self    string
	meta    func() *internalv1.GossipMeta // metadata of this peer
	changed *wait.Signal                  // fired when a member changes
	list    *memberlist.Memberlist
	at      string      // this peer's own gossip address
	keys    *gossipKeys // nil when gossip is not encrypted

	mu        sync.Mutex
	members   map[string]member // by id, including this peer and dead ones
	foreign   map[string]string // gossip address → why its cluster cannot be joined
	published *internalv1.GossipMeta
}

// openGossip opens the gossip port. meta is called again by publish.
func openGossip(cfg *Config, meta func() *internalv1.GossipMeta) (*gossip, error) {
	host, port, err := resolve(cfg.GossipAddr)
	if err != nil {
		return nil, fmt.Errorf("gossip address: %w", err)
	}
	g := &gossip{
		log: cfg.Logger, self: cfg.NodeID, meta: meta, changed: wait.NewSignal(),
		members: map[string]member{}, foreign: map[string]string{},
	}
	if n := len(g.NodeMeta(memberlist.MetaMaxSize)); n == 0 {
		return nil, fmt.Errorf("this peer's gossip metadata exceeds %d bytes: "+
			"use shorter addresses or a shorter node id",
			memberlist.MetaMaxSize)
	}
	c := memberlist.DefaultLANConfig()
	if cfg.GossipKeyFile != "" {
		if g.keys, err = openGossipKeys(cfg.GossipKeyFile, cfg.keyInterval, cfg.Logger); err != nil {
			return nil, err
		}
		c.Keyring = g.keys.ring
	}
	c.Name, c.Label = cfg.NodeID, "holdfast"
	c.BindAddr, c.BindPort, c.AdvertisePort = host, port, port
	if cfg.AdvertiseGossip != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = resolve(cfg.AdvertiseGossip); err != nil {
			return nil, fmt.Errorf("advertised gossip address: %w", err)
		}
	}
	m := min(cfg.RaftMultiplier, 1)
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * m) }
	c.ProbeInterval, c.ProbeTimeout = scale(time.Second), scale(500*time.Millisecond)
	c.GossipInterval = scale(100 * time.Millisecond)
	c.PushPullInterval = scale(10 * time.Second) // cheap with a few peers, and lost updates arrive soon
	c.TCPTimeout = 2 * time.Second
	c.DeadNodeReclaimTime = scale(time.Second) // a peer may return at another address
	c.MsgpackUseNewTimeFormat = true           // permanent: see package transport
	c.Delegate, c.Events, c.Alive, c.Merge, c.Conflict = g, g, g, g, g
	c.Logger = log.New(liblog.Lines(cfg.Logger.With("component", "gossip")), "", 0)
	if g.list, err = memberlist.Create(c); err != nil {
		return nil, fmt.Errorf("listen for gossip on %s: %w", cfg.GossipAddr, err)
	}
	g.at = g.list.LocalNode().Address() // read once, because later reads would race with writes
	return g, nil
}

// resolve splits an address and resolves its host, because memberlist needs an IP address.
func resolve(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%q: want host:port: %w", addr, err)
	}
	if port, err = strconv.Atoi(p); err != nil {
		return "", 0, fmt.Errorf("%q: port %q is not a number", addr, p)
	}
	if host == "" {
		return "0.0.0.0", port, nil
	}
	if net.ParseIP(host) != nil {
		return host, port, nil
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return "", 0, fmt.Errorf("%q: %w", addr, err)
	}
	slices.SortFunc(ips, func(a, b net.IP) int { // IPv4 first
		return cmp.Compare(len(a.To4()), len(b.To4())) * -1
	})
	return ips[0].String(), port, nil
}

// publish gossips this peer's metadata if it has changed.
func (g *gossip) publish() {
	g.mu.Lock()
	same := proto.Equal(g.published, g.meta())
	g.mu.Unlock()
	if same {
		return
	}
	if err := g.list.UpdateNode(time.Second); err != nil {
		g.log.Debug("gossip metadata update failed", "error", err) // push and pull will spread it
	}
}

// peers returns all members by id.
func (g *gossip) peers() []member {
	g.mu.Lock()
	defer g.mu.Unlock()
	ms := make([]member, 0, len(g.members))
	for _, m := range g.members {
		ms = append(ms, m)
	}
	slices.SortFunc(ms, func(a, b member) int { return cmp.Compare(a.meta.GetId(), b.meta.GetId()) })
	return ms
}

// peer returns one member.
func (g *gossip) peer(id string) (member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.members[id]
	return m, ok
}

// join tries to join at one address. The error is an errForeign if the address belongs to
// another cluster.
func (g *gossip) join(addr string) error {
	host, port, err := resolve(addr)
	if err != nil {
		return err
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	g.mu.Lock()
	delete(g.foreign, at)
	g.mu.Unlock()
	_, err = g.list.Join([]string{addr})
	g.mu.Lock()
	defer g.mu.Unlock()
	if what := g.foreign[at]; err != nil && what != "" {
		return errForeign(what)
	}
	return err
}

// errForeign means that an address belongs to another cluster.
type errForeign string

func (e errForeign) Error() string { return string(e) }

// keepJoined joins the configured peers and rejoins missing ones, because gossip forgets
// peers that were unreachable for long. known returns gossip addresses by peer id. It
// returns an error only if the configured peers belong to another cluster.
func (g *gossip) keepJoined(
	ctx context.Context,
	join []string,
	known func() map[string]string,
	every time.Duration,
) error {
	joined, pause := len(join) == 0, every/50
	for {
		var errs []error
		for _, addr := range g.missing(join, known()) {
			if ctx.Err() != nil {
				return nil
			}
			err := g.join(addr)
			var foreign errForeign
			switch {
			case err == nil:
				joined = true
			case errors.As(err, &foreign) && slices.Contains(join, addr) && g.alone():
				return err
			default:
				errs = append(errs, fmt.Errorf("join %s: %w", addr, err))
			}
		}
		if err := errors.Join(errs...); err != nil {
			g.log.Debug("joining some peers failed, will retry", "error", err, "joined", joined)
		}
		if pause = min(pause*2, every); joined && len(errs) == 0 {
			pause = every
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// missing returns the addresses that should be joined but are not.
func (g *gossip) missing(join []string, known map[string]string) []string {
	alive := map[string]bool{g.at: true}
	for _, m := range g.peers() {
		if m.alive {
			alive[m.gossip] = true
			delete(known, m.meta.GetId())
		}
	}
	var out []string
	add := func(addr string) {
		host, port, err := resolve(addr)
		if err == nil && alive[net.JoinHostPort(host, strconv.Itoa(port))] || slices.Contains(out, addr) {
			return
		}
		out = append(out, addr)
	}
	for _, addr := range join {
		add(addr)
	}
	for _, addr := range known {
		if addr != "" {
			add(addr)
		}
	}
	return out
}

// alone reports whether no other peer is known.
func (g *gossip) alone() bool {
	return !slices.ContainsFunc(g.peers(), func(m member) bool { return m.meta.GetId() != g.self && m.alive })
}

// close stops gossip. If leaving is set, it notifies the others first, so that they need
// not detect it.
func (g *gossip) close(leaving bool) {
	if leaving {
		if err := g.list.Leave(500 * time.Millisecond); err != nil {
			g.log.Debug("leaving gossip failed", "error", err)
		}
	}
	if err := g.list.Shutdown(); err != nil {
		g.log.Debug("stopping gossip failed", "error", err)
	}
}

// decodeMeta decodes the metadata that a peer gossips.
func decodeMeta(n *memberlist.Node) (*internalv1.GossipMeta, error) {
	m := &internalv1.GossipMeta{}
	if err := proto.Unmarshal(n.Meta, m); err != nil {
		return nil, fmt.Errorf("decode gossip of %s: %w", n.Name, err)
	}
	if m.GetId() == "" || m.GetId() != n.Name {
		return nil, fmt.Errorf("gossip of %s is not a holdfast peer's", n.Name)
	}
	return m, nil
}
