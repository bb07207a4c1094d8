// Package gossip owns the gossip between peers: memberlist, its keys, and the metadata of each
// peer. It finds peers and joins them. It must not decide which peers belong to the cluster.
package gossip

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Member is what gossip knows about a peer.
type Member struct {
	Meta  *internalv1.GossipMeta // immutable
	Addr  string                 // its gossip address, host:port
	Alive bool
	Since time.Time // when this peer learned that
}

// Gossip finds peers and spreads their metadata. It decides nothing: a peer that it
// considers dead may only be unreachable from here.
type Gossip struct {
	log     *slog.Logger
	self    string
	meta    func() *internalv1.GossipMeta // metadata of this peer
	changed *wait.Signal                  // fired when a member changes
	list    *memberlist.Memberlist
	at      string   // this peer's own gossip address
	keys    *keyring // nil when gossip is not encrypted

	mu        sync.Mutex
	members   map[string]Member // by id, including this peer and dead ones
	foreign   map[string]string // gossip address → why its cluster cannot be joined
	warned    map[string]string // the same, as it was logged
	failed    map[string]error  // by address, of the last round of joins
	published *internalv1.GossipMeta
}

// Config configures the gossip of a peer.
type Config struct {
	PeerID string
	// Addr is the listen address. Advertise is the address that other peers use, if it is another.
	Addr, Advertise string
	// KeyFile holds the keys, if gossip is encrypted. KeyInterval is the time between two checks of
	// the file: see the constant of that name.
	KeyFile     string
	KeyInterval time.Duration
	// Multiplier scales the timing if it is below 1.
	Multiplier float64
	// Limit returns a listener with a limit of connections; nil for none.
	Limit func(net.Listener) net.Listener
	// Refused counts a packet or connection that cannot be decrypted or decoded. It may be nil.
	Refused func()
	Logger  *slog.Logger
}

// Open opens the gossip port. meta returns the metadata of this peer. Publish calls it again.
func Open(cfg Config, meta func() *internalv1.GossipMeta) (*Gossip, error) {
	host, port, err := resolve(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("gossip address: %w", err)
	}
	g := &Gossip{
		log: cfg.Logger, self: cfg.PeerID, meta: meta, changed: wait.NewSignal(),
		members: map[string]Member{}, foreign: map[string]string{}, warned: map[string]string{},
	}
	if n := len(g.NodeMeta(memberlist.MetaMaxSize)); n == 0 {
		return nil, fmt.Errorf("this peer's gossip metadata exceeds %d bytes: "+
			"use shorter addresses or a shorter node id",
			memberlist.MetaMaxSize)
	}
	c := memberlist.DefaultLANConfig()
	if cfg.KeyFile != "" {
		if g.keys, err = openKeys(cfg.KeyFile, cfg.KeyInterval, cfg.Logger); err != nil {
			return nil, err
		}
		c.Keyring = g.keys.ring
	}
	c.Name, c.Label = cfg.PeerID, "holdfast"
	c.BindAddr, c.BindPort, c.AdvertisePort = host, port, port
	if cfg.Advertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = resolve(cfg.Advertise); err != nil {
			return nil, fmt.Errorf("advertised gossip address: %w", err)
		}
	}
	m := min(cfg.Multiplier, 1)
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * m) }
	c.ProbeInterval, c.ProbeTimeout = scale(time.Second), scale(500*time.Millisecond)
	c.GossipInterval = scale(100 * time.Millisecond)
	c.PushPullInterval = scale(10 * time.Second) // cheap with a few peers, and lost updates arrive soon
	c.TCPTimeout = 2 * time.Second
	c.DeadNodeReclaimTime = scale(time.Second) // a peer may return at another address
	c.MsgpackUseNewTimeFormat = true           // permanent: see package transport
	c.Delegate, c.Events, c.Alive, c.Merge, c.Conflict = g, g, g, g, g
	c.Logger = log.New(newLines(&cfg), "", 0)
	if cfg.Limit != nil {
		if c.Transport, err = limitStreams(c, cfg.Limit); err != nil {
			return nil, fmt.Errorf("listen for gossip on %s: %w", cfg.Addr, err)
		}
	}
	if g.list, err = memberlist.Create(c); err != nil {
		return nil, fmt.Errorf("listen for gossip on %s: %w", cfg.Addr, err)
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
	slices.SortFunc(ips, func(a, b net.IP) int { return cmp.Compare(len(b.To4()), len(a.To4())) }) // IPv4 first
	return ips[0].String(), port, nil
}

// Addr returns this peer's gossip address, which other peers name to join.
func (g *Gossip) Addr() string { return g.at }

// Changed returns a channel that is closed when a member changes, or at the next Notify.
func (g *Gossip) Changed() <-chan struct{} { return g.changed.Wait() }

// Notify wakes all that wait for a change.
func (g *Gossip) Notify() { g.changed.Fire() }

// ReloadKeys reloads the keys whenever their file has changed, until ctx ends. It returns at once
// if gossip is not encrypted.
func (g *Gossip) ReloadKeys(ctx context.Context) error { return g.keys.run(ctx) }

// Publish gossips this peer's metadata if it has changed.
func (g *Gossip) Publish() {
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

// Peers returns all members by id.
func (g *Gossip) Peers() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(g.members), func(a, b Member) int {
		return cmp.Compare(a.Meta.GetId(), b.Meta.GetId())
	})
}

// Peer returns one member.
func (g *Gossip) Peer(id string) (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.members[id]
	return m, ok
}

// Close stops gossip. If leaving is set, it notifies the others first, so that they need
// not detect it.
func (g *Gossip) Close(leaving bool) {
	if leaving {
		if err := g.list.Leave(500 * time.Millisecond); err != nil {
			g.log.Debug("leaving gossip failed", "error", err)
		}
	}
	if err := g.list.Shutdown(); err != nil {
		g.log.Debug("stopping gossip failed", "error", err)
	}
}

// Fit returns the beginning of a text that fits into the metadata as another field.
func Fit(meta *internalv1.GossipMeta, text string) string {
	const head = 3 // bytes: the tag and the length
	room := max(0, memberlist.MetaMaxSize-proto.Size(meta)-head)
	return strings.ToValidUTF8(text[:min(len(text), room)], "")
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
