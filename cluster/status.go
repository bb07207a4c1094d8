package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// statusTimeout bounds a request for the status of one peer.
const statusTimeout = 500 * time.Millisecond

// Status returns the state of the cluster as this peer sees it. It needs no quorum. Peers
// that do not answer within half a second are listed with the reason.
func (n *Node) Status(ctx context.Context) *holdfastv1.ClusterStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	leader, _, _ := n.Leader()
	meta := n.fsm.View().Meta()
	st := &holdfastv1.ClusterStatus{
		ClusterId: meta.GetClusterId(), Leader: leader, Term: n.raft.CurrentTerm(),
		FeatureLevel: meta.GetFeatureLevel(), AnsweredBy: n.cfg.NodeID,
		Peers: n.knownPeers(leader), LastBackupAt: meta.GetLastBackup(),
	}
	var wg sync.WaitGroup
	for _, p := range st.GetPeers() {
		wg.Go(func() { n.ask(ctx, p) })
	}
	wg.Wait()
	committed := n.raft.CommitIndex()
	for _, p := range st.GetPeers() {
		if p.GetError() == "" && committed > p.GetAppliedIndex() {
			p.Behind = committed - p.GetAppliedIndex()
		}
	}
	voters, answering := 0, 0
	for _, p := range st.GetPeers() {
		if p.GetSuffrage() == "voter" {
			voters++
			if p.GetError() == "" && p.GetMayVote() { // gossip needs seconds to detect a dead peer
				answering++
			}
		}
	}
	st.FailureTolerance = int32(max(0, answering-(voters/2+1)))
	return st
}

// knownPeers lists the peers of the Raft configuration and of gossip, by id.
func (n *Node) knownPeers(leader string) []*holdfastv1.Peer {
	peers := map[string]*holdfastv1.Peer{}
	for _, s := range n.servers() {
		p := &holdfastv1.Peer{Id: string(s.ID), Suffrage: "nonvoter", RaftAddr: string(s.Address)}
		if s.Suffrage == raft.Voter {
			p.Suffrage = "voter"
		}
		if rec, ok := n.fsm.View().Peer(p.GetId()); ok {
			p.GrpcAddr, p.HttpAddr, p.GossipAddr = rec.GetGrpcAddr(), rec.GetHttpAddr(), rec.GetGossipAddr()
			p.Version, p.MaxFeatureLevel = rec.GetVersion(), rec.GetMaxFeatureLevel()
		}
		peers[p.GetId()] = p
	}
	for _, m := range n.gossip.Peers() {
		p, ok := peers[m.Meta.GetId()]
		if !ok {
			if !m.Alive {
				continue // it has left
			}
			p = &holdfastv1.Peer{Id: m.Meta.GetId(), Suffrage: "none"}
			peers[p.GetId()] = p
		}
		p.Alive = m.Alive
		p.RaftAddr, p.GrpcAddr = m.Meta.GetRaftAddr(), m.Meta.GetGrpcAddr()
		p.HttpAddr, p.GossipAddr = m.Meta.GetHttpAddr(), m.Addr
		p.Version, p.MaxFeatureLevel = m.Meta.GetVersion(), m.Meta.GetMaxFeatureLevel()
	}
	list := make([]*holdfastv1.Peer, 0, len(peers))
	for _, p := range peers {
		p.Leader = p.GetId() == leader
		p.LastContactMs = -1
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *holdfastv1.Peer) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return list
}

// ask fills in the statistics that the peer itself reports.
func (n *Node) ask(ctx context.Context, p *holdfastv1.Peer) {
	st, err := n.peerStats(ctx, p.GetId())
	if err != nil {
		p.Error = status.Convert(err).Message()
		return
	}
	p.MayVote = st.MayVote == nil || st.GetMayVote() // an older peer does not report it
	p.Term, p.Load = st.GetTerm(), st.GetLoad()
	p.AppliedIndex, p.LastIndex, p.LastContactMs = st.GetAppliedIndex(), st.GetLastIndex(), st.GetLastContactMs()
}

// CommitBounds is the number of bounds of PeerLoad.commits. It has one more count, for
// commands slower than all bounds (about 5 s).
const CommitBounds = 32

// CommitBound returns the upper bound of bucket i of PeerLoad.commits: 0.1 ms, 0.15 ms, and
// then twice the bound before the previous one.
func CommitBound(i int) time.Duration {
	d := 100 * time.Microsecond << (i / 2)
	if i%2 == 1 {
		d += d / 2
	}
	return d
}

// commitPlace returns the bucket for a command that took d.
func commitPlace(d time.Duration) int {
	return sort.Search(CommitBounds, func(i int) bool { return d <= CommitBound(i) })
}

// load returns the work that this peer has done since it started.
func (n *Node) load() *holdfastv1.PeerLoad {
	l := &holdfastv1.PeerLoad{
		Commands:      n.metrics.commands.Load(),
		CommitSeconds: time.Duration(n.metrics.commitNanos.Load()).Seconds(),
	}
	for i := range n.metrics.commits {
		l.Commits = append(l.Commits, n.metrics.commits[i].Load())
	}
	if n.cfg.Leases != nil {
		live, rate := n.cfg.Leases()
		l.Leases, l.LeaseRate = uint64(max(live, 0)), rate
	}
	return l
}

// LeaderLoad returns the leader's id and its load, which it must report within half a
// second. It returns ErrNoLeader if no leader is known.
func (n *Node) LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error) {
	leader, self, ok := n.Leader()
	switch {
	case !ok:
		return "", nil, ErrNoLeader
	case self:
		return leader, n.load(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	st, err := n.peerStats(ctx, leader)
	if err != nil {
		return "", nil, fmt.Errorf("get the load of leader %s: %w", leader, err)
	}
	return leader, st.GetLoad(), nil
}
