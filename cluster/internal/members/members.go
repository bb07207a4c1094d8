// Package members owns the membership of a cluster, on its leader: it adds, promotes, demotes and
// removes peers, and keeps their records. It must not know how a term begins or ends: it is one
// more task of the leader.
package members

import (
	"context"
	"crypto/x509"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	// changeTimeout bounds one change of the membership.
	changeTimeout = 5 * time.Second
	// answerTimeout bounds a request to one peer.
	answerTimeout = 500 * time.Millisecond
)

// Raft changes Raft's configuration.
type Raft interface {
	AddVoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture
	AddNonvoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture
	DemoteVoter(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture
	RemoveServer(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture
}

// Gossip knows the peers that run.
type Gossip interface {
	Peers() []gossip.Member
	Peer(id string) (gossip.Member, bool)
	// Changed returns a channel that is closed when a peer changes, or Notify is called.
	Changed() <-chan struct{}
	Notify()
}

// Config holds what the membership depends on.
type Config struct {
	Self          string
	AdmitManually bool   // new peers wait for an admin
	Level         uint32 // the highest feature level that this peer understands
	// SignPeer signs another certificate of a peer. If it is nil, this peer signs none.
	SignPeer func(present *x509.Certificate, csr []byte) (chain []byte, serial string, err error)

	// Leads returns the term in which this peer leads, or the reason why it does not.
	Leads func() (term uint64, err error)
	// Leader returns the leader that this peer knows; may be empty.
	Leader func() string
	// Servers returns Raft's configuration.
	Servers     func() []raft.Server
	CommitIndex func() uint64
	View        func() *fsm.View
	// Commit commits a command of the leader.
	Commit func(ctx context.Context, cmd *internalv1.Command) error

	// Stats returns the statistics that a peer reports, and its certificate; nil without TLS.
	Stats func(ctx context.Context, id string) (*internalv1.StatsResponse, *x509.Certificate, error)
	// Admit allows a peer to vote.
	Admit func(ctx context.Context, id string, req *internalv1.AdmitRequest) error
	// Denied returns the reason why a certificate of a peer is denied, or nil.
	Denied func(id string, cert *x509.Certificate) error

	Now    func() time.Time // the cluster's time
	Scale  func(time.Duration) time.Duration
	Logger *slog.Logger
}

// Members is what this peer, as the leader, knows of the other peers beyond Raft's configuration.
type Members struct {
	cfg    Config
	raft   Raft
	gossip Gossip

	// departed maps the ids of peers that have left to their processes, so that the leader does
	// not add a peer again that is still in gossip. A process that starts again is another one.
	// Each leader has its own list in memory. A peer that was removed by force and not stopped
	// joins again under the next leader, as a nonvoter that catches up first.
	departed sync.Map
	serials  sync.Map // id → the serial of the certificate that this peer saw last
	// certs is held while a record of a peer's certificates is read and committed: a certificate
	// that is made while its peer is removed must be denied too.
	certs sync.Mutex
	seen  conditions // the peers' conditions, as this leader observed them
}

// New returns the membership of a cluster. Run manages it while this peer leads.
func New(cfg Config, r Raft, g Gossip) *Members {
	return &Members{cfg: cfg, raft: r, gossip: g}
}

// Saw records the certificate that a peer has shown.
func (ms *Members) Saw(id string, cert *x509.Certificate) {
	ms.serials.Store(id, cert.SerialNumber.Text(16))
}

// refusal returns the error of a call that has changed nothing.
func (ms *Members) refusal(err error) error { return outcome.Refusal(ms.cfg.Leader(), err) }

// server returns a peer of Raft's configuration.
func (ms *Members) server(id string) (raft.Server, bool) {
	servers := ms.cfg.Servers()
	i := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return servers[i], true
}

// process identifies one process of a peer.
type process struct {
	instance string
	start    int64
}

func processOf(m *internalv1.GossipMeta) process { return process{m.GetInstance(), m.GetStart()} }
