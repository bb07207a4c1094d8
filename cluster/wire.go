package cluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/internal/clockcheck"
	"github.com/holdfast-metal/holdfast/cluster/internal/deathwatch"
	"github.com/holdfast-metal/holdfast/cluster/internal/founding"
	"github.com/holdfast-metal/holdfast/cluster/internal/marks"
	"github.com/holdfast-metal/holdfast/cluster/internal/members"
	"github.com/holdfast-metal/holdfast/cluster/internal/peerauth"
	"github.com/holdfast-metal/holdfast/cluster/internal/propose"
	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
	"github.com/holdfast-metal/holdfast/cluster/internal/read"
	"github.com/holdfast-metal/holdfast/cluster/internal/roster"
	"github.com/holdfast-metal/holdfast/cluster/internal/route"
	"github.com/holdfast-metal/holdfast/cluster/internal/terms"
	"github.com/holdfast-metal/holdfast/cluster/internal/watchdog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func (n *Peer) openMarks() (*marks.Keeper, error) {
	k, err := marks.Open(marks.Config{
		Self: n.cfg.PeerID, Store: n.stores, Note: n.stores.NoteEnd, File: n.stores.VoteFile(),
		Identity: func() marks.Identity {
			r := n.ident.Get()
			return marks.Identity{Cluster: r.ClusterID, Instance: r.Instance, Admitted: r.Admitted, AdmittedAt: r.AdmittedAt}
		},
		LoseVote: func(why string) error {
			if n.gate != nil {
				n.gate.Admit(false)
			}
			return n.ident.LoseVote(why)
		},
		Scale: n.cfg.scale(time.Second).Seconds(), Logger: n.log,
	})
	if errors.Is(err, marks.ErrForeign) {
		err = fmt.Errorf("data directory %s: %w: %s", n.cfg.DataDir, err, raftstore.DamageAdvice)
	}
	return k, err
}

func newRoster(n *Peer) *roster.Roster {
	return roster.New(n.life, roster.Config{
		Self: n.cfg.PeerID, Servers: func() []raft.Server { return n.raft.servers() },
		Founders:  func() []string { return n.ident.Get().FounderIDs() },
		Admission: func(id string) (*internalv1.PeerAdmission, bool) { return n.fsm.View().Admission(id) },
		VotedFor:  func(id string, term uint64) bool { return n.gate.VotedFor(id, term) },
		Vouch: func(ctx context.Context, id string, req *internalv1.VouchRequest) (*internalv1.VouchResponse, error) {
			c, err := n.conns.Peer(id)
			if err != nil {
				return nil, err
			}
			return c.Vouch(ctx, req)
		},
		Refused: func() { n.metrics.refusedPeers.Inc() },
		Logger:  n.log,
	})
}

// wireLeader connects what needs Raft and no other peer yet.
func (n *Peer) wireLeader() {
	n.ask = &asker{
		self: n.cfg.PeerID, conns: n.conns, own: n.report.stats, known: n.marks.Known,
		term: func() uint64 {
			if !n.gate.Admitted() {
				return 0
			}
			return n.raft.CurrentTerm()
		},
		saw: func(id string, cert *x509.Certificate) { n.members.Saw(id, cert) },
	}
	n.committer = propose.New(propose.Config{
		Ready:  func() error { return n.terms.NotReady() },
		Leader: n.leaderID, Ended: n.ended, Stopping: n.stopping,
		Applied: n.metrics.applied, Batched: n.metrics.batched, Tracer: n.cfg.Tracer, Began: n.began,
	}, n.raft, n.fsm)
	n.terms = terms.New(n.life, terms.Config{
		Self: n.cfg.PeerID, Notify: n.notify, Servers: n.raft.servers, Voters: n.raft.voters, Leader: n.Leader,
		Peers:        terms.Peers{StandDown: n.ask.standDown, Confirm: n.ask.confirm, LastIndex: n.ask.lastIndex},
		CallElection: n.gate.CallElection, CommitAll: n.committer.CommitAll,
		ClusterID: n.clusterID, Genesis: n.genesis, Changed: n.changed,
		StandDownTimeout: n.cfg.standDown, Scale: n.cfg.scale, Logger: n.log,
	}, n.raft)
	n.watchdog = watchdog.New(watchdog.Config{
		DataDir: n.cfg.DataDir, NoOpInterval: n.cfg.NoOpInterval, StallTimeout: n.cfg.StallTimeout,
		CommitIndex: n.raft.CommitIndex, Leads: n.raft.leads, Ready: n.Ready,
		Note:   func() { n.past.Note(time.Now(), n.fsm.Applied()) },
		Commit: n.committer.Commit, Logger: n.log,
	}, n.driver)
	n.clocks = clockcheck.New(clockcheck.Config{
		Self: n.cfg.PeerID, Clock: n.cfg.Clock, Voters: n.raft.voters, Stats: n.ask.stats, View: n.fsm.View,
		Leads: func() (uint64, bool) {
			l, ok := n.terms.Current()
			return l.Term, ok
		},
		Uptime: n.committer.Uptime, Commit: n.committer.Commit, Scale: n.cfg.scale, Logger: n.log,
	})
}

// wireMembers connects what needs gossip.
func (n *Peer) wireMembers() {
	n.members = members.New(members.Config{
		Self: n.cfg.PeerID, AdmitManually: n.cfg.AdmitManually, Level: n.cfg.level(), SignPeer: n.cfg.SignPeer,
		Leads: n.leads, Leader: n.leaderID, Servers: n.raft.servers, CommitIndex: n.raft.CommitIndex, View: n.fsm.View,
		Commit: n.committer.Commit, Stats: n.ask.statsCert, Admit: n.ask.admit, Denied: n.roster.Denied,
		Now: n.cfg.Clock.Now, Scale: n.cfg.scale, Logger: n.log,
	}, n.raft, n.gossip)
	n.founding = founding.New(founding.Config{
		Self: n.cfg.PeerID, Expect: n.cfg.BootstrapExpect, Meta: n.gossipMeta,
		HasState: n.raft.hasState, ClusterID: n.clusterID,
		Bootstrap: func(c raft.Configuration) error { return n.raft.BootstrapCluster(c).Error() },
		Ask:       n.ask.admit, Vote: n.allowVote, Changed: n.metaChanged, Scale: n.cfg.scale, Logger: n.log,
	}, n.ident, n.gossip)
	n.watcher = deathwatch.New(deathwatch.Config{
		Self: n.cfg.PeerID, TLS: n.cfg.TLS != nil, Heartbeat: n.cfg.scale(baseHeartbeat), Leader: n.Leader,
		Voters: n.raft.voters, Fit: n.Votes, RaftAddr: n.RaftAddr(),
		VotedFor: func() (uint64, string, error) { return lastVote(n.stores) },
		Dial: func(id string, timeout time.Duration) (net.Conn, error) {
			addr, err := n.addrs.ServerAddr(raft.ServerID(id))
			if err != nil {
				return nil, err
			}
			return n.stream.Dial(addr, timeout)
		},
		HeardFrom: n.stream.HeardFrom, Refused: n.gate.Refused, CallElection: n.gate.CallElection,
		Calling: n.metrics.deathWatch.Inc, Changed: n.changed, Scale: n.cfg.scale, Logger: n.log,
	}, n.raft)
}

// wireCalls connects what serves calls.
func (n *Peer) wireCalls() {
	n.guard = peerauth.New(peerauth.Config{TLS: n.cfg.TLS, Now: n.cfg.Clock.Now, Member: n.roster.Member,
		Denied: n.roster.Denied, LogRefusal: n.roster.LogRefusal})
	n.reader = read.New(n.life, read.Config{
		Self: n.cfg.PeerID, Leader: n.Leader, Leads: n.raft.leads, Why: n.report.why,
		Stopped:     func() bool { return n.raft.State() == raft.Shutdown },
		CommitIndex: n.raft.CommitIndex, Ask: n.ask.readIndex, Changed: n.changed,
		Ended: n.ended, Stopping: n.stopping,
	}, n.terms, n.fsm)
	n.router = route.New(route.Config{
		Self: n.cfg.PeerID, ForwardMetadata: n.cfg.ForwardMetadata, Leader: n.Leader,
		Conn:        func(id string) (route.Conn, error) { return n.conns.Get(id) },
		LastContact: n.report.lastContact, Leaderless: n.leaderless.Load, Why: n.report.why, Changed: n.changed,
		Before: n.past.Before, Read: n.metrics.read, Forwarded: n.metrics.forwarded,
		Scale: n.cfg.scale, Logger: n.log,
	}, n.reader, n.guard, n.fsm.Applied)
}

// lastVote returns the term of a peer's last vote, and the address of its candidate.
func lastVote(s *raftstore.Stores) (term uint64, candidate string, err error) {
	if term, err = s.VoteTerm(); err != nil {
		return 0, "", err
	}
	candidate, err = s.VoteCandidate()
	return term, candidate, err
}

// leaderID returns the leader that this peer knows; may be empty.
func (n *Peer) leaderID() string {
	id, _, _ := n.Leader()
	return id
}

// clusterID returns the id of the cluster in the state; empty if there is none yet.
func (n *Peer) clusterID() string { return n.fsm.View().Meta().GetClusterId() }

// genesis returns the commands that create a cluster.
func (n *Peer) genesis() []*internalv1.Command {
	var cmds []*internalv1.Command
	for _, c := range n.cfg.Genesis {
		cmds = append(cmds, proto.CloneOf(c))
	}
	for _, s := range n.raft.servers() {
		// A peer recorded before the first acknowledged write cannot have lost one.
		if m, ok := n.gossip.Peer(string(s.ID)); ok {
			cmds = append(cmds, n.members.Record(m))
		}
	}
	id := cmp.Or(n.ident.Get().ClusterID, uuid.NewString())
	return append(cmds, &internalv1.Command{
		Op: &internalv1.Command_InitCluster{InitCluster: &internalv1.InitCluster{ClusterId: id}},
	})
}
