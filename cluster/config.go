package cluster

import (
	"context"
	"crypto/x509"
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

	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config configures a peer: its name, its addresses and how it finds the others.
type Config struct {
	// PeerID is the permanent name of this peer. No two peers may share one.
	PeerID string
	// DataDir holds the Raft log, the snapshots and the identity (0700). If it is empty,
	// everything is kept in memory, and a restarted peer has lost its data.
	DataDir string

	// LogStore selects the store of the Raft log, LogStoreBolt or LogStoreWAL. An existing log
	// must be in that store. If it is empty, any store is right, and a new log is in segments.
	// Each peer may choose another store.
	LogStore string

	// RaftAddr and GossipAddr are the listen addresses, host:port. Port 0 picks a free one.
	RaftAddr, GossipAddr string
	// AdvertiseRaft and AdvertiseGossip are the addresses that other peers use. They
	// default to the listen addresses.
	AdvertiseRaft, AdvertiseGossip string
	// AdvertiseGRPC is the address where other peers reach this peer's PeerService and
	// forward calls to. It is required.
	AdvertiseGRPC string
	// AdvertiseHTTP is shown in the cluster's status.
	AdvertiseHTTP string

	// Join lists gossip addresses of other peers. They are tried until one answers, and
	// again if a known peer is missing.
	Join []string
	// BootstrapExpect is how many peers must see each other before a new cluster forms.
	// With 1 this peer forms one alone, with 0 it only joins. It is ignored once the peer
	// belongs to a cluster.
	BootstrapExpect int
	// AdmitManually makes new peers wait until an admin admits them (AdmitPeer). It holds for the
	// cluster if one of its peers has it.
	AdmitManually bool
	// RaftMultiplier scales the heartbeat and election timeouts (500 ms) and the leader lease (250
	// ms). Default 1.
	RaftMultiplier float64
	// Clock is set to the clock on which a majority of the voters agrees. It may be nil.
	Clock *clock.Clock
	// Genesis holds commands that the very first leader commits together with the cluster
	// id, before anything is served.
	Genesis []*internalv1.Command

	// Version is the version of this build, shown in the status.
	Version string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Tracer creates spans of commits within the traces of callers. If it is nil, there are
	// none.
	Tracer trace.Tracer
	// Registerer registers the metrics of this peer. If it is nil, none are registered.
	Registerer prometheus.Registerer
	// TLS holds the certificates of this peer. Raft, and gRPC to other peers, then use
	// mutual TLS. The gRPC server passed to RegisterPeerService must use them too
	// (peertls.Store.API). Run reloads them. If it is nil, connections are not secured.
	TLS *peertls.Store
	// SignPeer signs another certificate of a peer, for a request (PKCS #10, DER). It returns the
	// certificate with that of its issuer (PEM), and its serial in hexadecimal digits. If it is
	// nil, this peer signs none.
	SignPeer func(present *x509.Certificate, csr []byte) (chain []byte, serial string, err error)
	// GossipKeyFile holds the keys that encrypt gossip, in base64, one per line. The first
	// one encrypts, all of them decrypt. The file is read again when it changes. If it is
	// empty, gossip is not encrypted.
	GossipKeyFile string
	// LimitPeers returns a listener like another one that limits how many connections callers
	// without a certificate hold to the ports of Raft and gossip. If it is nil, there is no limit.
	LimitPeers func(net.Listener) net.Listener
	// DialOptions are added to gRPC connections to other peers.
	DialOptions []grpc.DialOption
	// ForwardMetadata, if set, changes the metadata of a call before it is forwarded to
	// another peer. The edge names the caller there. The context is the call's.
	ForwardMetadata func(ctx context.Context, md metadata.MD)
	// LeaveOnStop removes the peer from the cluster when Run's context ends. Without it a
	// stop never changes the membership.
	LeaveOnStop bool

	// SnapshotThreshold, SnapshotInterval and TrailingLogs are Raft's. They default to
	// 8192, 30 s and 10240. If entries are large, snapshots come earlier and fewer entries
	// are kept: see raftstore.LogBytes.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// NoOpInterval is how long a leader may be idle before it proves that it can commit. It
	// defaults to 5 s.
	NoOpInterval time.Duration
	// StallTimeout is how long a leader may fail to commit before Run returns ErrStalled.
	// It defaults to 30 s.
	StallTimeout time.Duration
	// NoDeathWatch disables the watch on the leader's process, so that only timeouts start
	// elections.
	NoDeathWatch bool

	// For tests.
	wrapLogs              func(raft.LogStore) raft.LogStore // simulates a failing disk under Raft
	dialFault             func(addr string) error           // blocks connections to Raft ports, as a firewall does
	raftStarted           func(*Peer)                       // called by New when Raft runs, and gossip does not yet
	commitTimeout         time.Duration                     // of Raft; default 100 ms
	noNotices             bool                              // makes this peer send no notices of commits
	levelsBehind          uint32                            // makes this peer act like an older build
	keyInterval           time.Duration                     // between two checks of GossipKeyFile; default 5 s
	snapshotCheckInterval time.Duration                     // see raftstore.CheckInterval
	logBytes              int64
	standDown             time.Duration // see terms.StandDownTimeout
}

// level returns the highest feature level that this peer understands.
func (c *Config) level() uint32 { return fsm.FeatureLevel - c.levelsBehind }

// Stores of the Raft log (Config.LogStore). Raft's term and vote are always in bolt.
const (
	LogStoreBolt = raftstore.LogStoreBolt // together with the term, in raft.db
	LogStoreWAL  = raftstore.LogStoreWAL  // in segments of a separate directory: one sync per write instead of two
)

// Timeouts that RaftMultiplier scales.
const (
	baseHeartbeat = 500 * time.Millisecond
	baseLease     = 250 * time.Millisecond
)

// complete validates the configuration and sets the defaults.
func (c *Config) complete() error {
	if c.PeerID == "" {
		return errors.New("node id is empty: give every peer a unique name")
	}
	if c.AdvertiseGRPC == "" {
		return errors.New("advertise gRPC address is empty: set the address where other peers reach this one")
	}
	if c.BootstrapExpect < 0 {
		return fmt.Errorf("bootstrap expect is %d: want the number of peers that form the cluster, or 0",
			c.BootstrapExpect)
	}
	if c.LogStore != "" && c.LogStore != LogStoreBolt && c.LogStore != LogStoreWAL {
		return fmt.Errorf("log store is %q: want %s or %s", c.LogStore, LogStoreBolt, LogStoreWAL)
	}
	if c.RaftMultiplier < 0 || c.RaftMultiplier > 20 {
		return fmt.Errorf("raft multiplier is %g: want 0 to 20", c.RaftMultiplier)
	}
	for _, a := range []struct{ what, addr string }{
		{"raft", c.RaftAddr}, {"gossip", c.GossipAddr}, {"advertised gRPC", c.AdvertiseGRPC},
	} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			return fmt.Errorf("%s address %q: want host:port: %w", a.what, a.addr, err)
		}
	}
	if err := transport.CheckReachable("grpc", c.AdvertiseGRPC); err != nil {
		return err
	}
	c.setDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("peer", c.PeerID)
	return nil
}

func (c *Config) setDefaults() {
	setDefault(&c.RaftMultiplier, 1)
	setDefault(&c.SnapshotThreshold, 8192)
	setDefault(&c.SnapshotInterval, 30*time.Second)
	setDefault(&c.TrailingLogs, 10240)
	setDefault(&c.NoOpInterval, 5*time.Second)
	setDefault(&c.StallTimeout, 30*time.Second)
	setDefault(&c.keyInterval, gossip.KeyInterval)
	setDefault(&c.snapshotCheckInterval, raftstore.CheckInterval)
	setDefault(&c.logBytes, raftstore.LogBytes)
	setDefault(&c.standDown, terms.StandDownTimeout)
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
