package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config says who a peer is, where it listens, and how it finds the others.
type Config struct {
	// NodeID names this peer for ever; two peers never share one.
	NodeID string
	// DataDir holds the Raft log, the snapshots and the identity (0700). Empty: everything in
	// memory, and a restart makes a peer that has lost its data.
	DataDir string

	// LogStore is what the Raft log is kept in, LogStoreBolt or LogStoreWAL; a log that is in the
	// other one moves, once. Empty: it stays where it is, and a new one is in bolt. Each peer
	// chooses for itself.
	LogStore string

	// RaftAddr and GossipAddr are the listen addresses, host:port. Port 0 picks a free one.
	RaftAddr, GossipAddr string
	// AdvertiseRaft and AdvertiseGossip are what other peers are told. Default: the listen address.
	AdvertiseRaft, AdvertiseGossip string
	// AdvertiseGRPC is where other peers reach this peer's PeerService and forward calls to;
	// required.
	AdvertiseGRPC string
	// AdvertiseHTTP is shown in the cluster's status.
	AdvertiseHTTP string

	// Join lists gossip addresses of other peers. They are tried until one answers, and again
	// whenever a known peer is missing.
	Join []string
	// BootstrapExpect is how many peers must see each other before a new cluster forms. 1 forms one
	// alone, 0 only joins. It means nothing once a peer belongs to a cluster.
	BootstrapExpect int
	// RaftMultiplier scales the heartbeat and election timeouts (500 ms) and the leader lease (250
	// ms). Default 1.
	RaftMultiplier float64
	// Genesis is committed by the first leader ever, together with the cluster's id and before
	// anything is served.
	Genesis []*internalv1.Command

	// Version is this build's, for the status.
	Version string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Leases tells, for the status, how many leases this peer keeps as the leader and how many
	// heartbeats it takes a second. Nil: of none.
	Leases func() (live int, rate float64)
	// Tracer makes spans of commits, in traces that callers have begun. Nil: there are none.
	Tracer trace.Tracer
	// Registerer takes the metrics of this peer; nil registers none.
	Registerer prometheus.Registerer
	// TLS has the certificates of this peer: Raft, and gRPC to other peers, go over mutual TLS. The
	// gRPC server that RegisterPeerService is called with must use them too (peertls.Store.API).
	// Run reloads them. Nil: no transport security.
	TLS *peertls.Store
	// GossipKeyFile holds the keys that encrypt gossip, base64, one a line: the first one encrypts,
	// all are understood. It is read again when it changes. Empty: gossip is not encrypted.
	GossipKeyFile string
	// DialOptions are added for connections to other peers' gRPC.
	DialOptions []grpc.DialOption
	// ForwardMetadata changes the metadata of a call before it is forwarded to another peer, nil
	// does not: the edge says there who the caller is. The context is the call's.
	ForwardMetadata func(ctx context.Context, md metadata.MD)
	// BeforeHandover is called when a leader stops on purpose: its tasks have ended, it still
	// leads. It has 5 s.
	BeforeHandover func(ctx context.Context)
	// LeaveOnStop takes the peer out of the cluster when Run's context ends. Without it a stop
	// never changes the membership.
	LeaveOnStop bool

	// SnapshotThreshold, SnapshotInterval and TrailingLogs are Raft's. Default 8192, 30 s, 10240.
	// Where entries are large, there are snapshots earlier, and fewer entries are kept: see
	// logBytes.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// BeatInterval is how long a leader may be idle before it proves that it can commit. Default 5
	// s.
	BeatInterval time.Duration
	// StallTimeout is how long a leader may fail to commit before Run ends with ErrStalled. Default
	// 30 s.
	StallTimeout time.Duration
	// NoDeathWatch turns off the watch on the leader's process, so that only timeouts start
	// elections.
	NoDeathWatch bool

	clusterID   string // of the identity in DataDir, for errors
	logExpected bool   // DataDir must hold a Raft log: see expectLog
	readOnly    bool   // nothing in DataDir is removed: a dry run of Recover

	// For tests.
	wrapLogs     func(raft.LogStore) raft.LogStore // puts a failing disk under Raft
	dialFault    func(addr string) error           // fails connections to other peers' Raft ports, as a firewall does
	levelsBehind uint32                            // makes this peer an older build
	keyInterval  time.Duration                     // between two looks at GossipKeyFile; default 5 s
	weighEvery   time.Duration                     // see the constants of these names
	logBytes     int64
	standDown    time.Duration // see standDownTimeout
}

// level is the highest feature level that this peer understands.
func (c *Config) level() uint32 { return fsm.FeatureLevel - c.levelsBehind }

// The timeouts that RaftMultiplier scales.
const (
	baseHeartbeat = 500 * time.Millisecond
	baseLease     = 250 * time.Millisecond
)

// complete fills in the defaults and says what is wrong with the rest.
func (c *Config) complete() error {
	if c.NodeID == "" {
		return errors.New("node id is empty: give every peer a name of its own")
	}
	if c.AdvertiseGRPC == "" {
		return errors.New("advertise gRPC address is empty: other peers could not reach this one")
	}
	if c.BootstrapExpect < 0 {
		return fmt.Errorf("bootstrap expect is %d: it is the number of peers that form the cluster, or 0", c.BootstrapExpect)
	}
	if c.LogStore != "" && c.LogStore != LogStoreBolt && c.LogStore != LogStoreWAL {
		return fmt.Errorf("log store is %q: it is %s or %s", c.LogStore, LogStoreBolt, LogStoreWAL)
	}
	if c.RaftMultiplier < 0 || c.RaftMultiplier > 20 {
		return fmt.Errorf("raft multiplier is %g: it must lie between 0 and 20", c.RaftMultiplier)
	}
	for _, a := range []struct{ what, addr string }{
		{"raft", c.RaftAddr}, {"gossip", c.GossipAddr}, {"advertised gRPC", c.AdvertiseGRPC},
	} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			return fmt.Errorf("%s address %q: want host:port: %w", a.what, a.addr, err)
		}
	}
	if err := reachable("grpc", c.AdvertiseGRPC); err != nil {
		return err
	}
	setDefault(&c.RaftMultiplier, 1)
	setDefault(&c.SnapshotThreshold, 8192)
	setDefault(&c.SnapshotInterval, 30*time.Second)
	setDefault(&c.TrailingLogs, 10240)
	setDefault(&c.BeatInterval, 5*time.Second)
	setDefault(&c.StallTimeout, 30*time.Second)
	setDefault(&c.keyInterval, gossipKeyInterval)
	setDefault(&c.weighEvery, weighEvery)
	setDefault(&c.logBytes, logBytes)
	setDefault(&c.standDown, standDownTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("peer", c.NodeID)
	return nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// scale returns a duration times the Raft multiplier.
func (c *Config) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.RaftMultiplier)
}

// reachable makes sure that an address can be told to others: a listener on every interface has
// none.
func reachable(what, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s address %q: want host:port: %w", what, addr, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("%s address %q cannot be told to other peers: set --advertise-%s to one that they can reach", what, addr, what)
	}
	return nil
}
