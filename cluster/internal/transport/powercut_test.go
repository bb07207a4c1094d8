package transport

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
)

// simPeer is a peer from its start until a power cut. It treats entries and votes as the library
// does.
type simPeer struct {
	*raft.InmemStore // its disk, which stores entries when it may

	t               *testing.T
	turn, cut, loop chan struct{} // loop is full while Raft's main loop works
	logs            raft.LogStore // with late writes
	gate            *Gate
	term            uint64 // on disk, with the vote
	leads           bool
	counted         *atomic.Int64 // acknowledgements
}

func (p *simPeer) StoreLogs(logs []*raft.Log) error {
	select {
	case <-p.turn:
		return p.InmemStore.StoreLogs(logs)
	case <-p.cut:
		return raft.ErrRaftShutdown
	}
}

func startPeer(t *testing.T, disk *raft.InmemStore, term uint64, counted *atomic.Int64) *simPeer {
	p := &simPeer{InmemStore: disk, t: t, term: term, counted: counted,
		turn: make(chan struct{}), cut: make(chan struct{}), loop: make(chan struct{}, 1)}
	s, _ := raftstore.Open(&raftstore.Config{Wrap: func(raft.LogStore) raft.LogStore { return p }}) // in memory
	s.WriteLate(func() bool { return p.leads })
	p.logs, p.gate = s.Logs, &Gate{stop: p.cut}
	p.gate.Attach(Local{Synced: s.Synced})
	return p
}

func entryAt(s raft.LogStore, index uint64) (l raft.Log) { _ = s.GetLog(index, &l); return l }
func (p *simPeer) last() raft.Log                        { i, _ := p.logs.LastIndex(); return entryAt(p.logs, i) }

func (p *simPeer) propose() { _ = p.logs.StoreLog(&raft.Log{Index: p.last().Index + 1, Term: p.term}) }

func (p *simPeer) checkDisk(req *raft.AppendEntriesRequest) {
	for _, e := range req.Entries {
		if entryAt(p.InmemStore, e.Index).Term != e.Term {
			p.t.Errorf("entry %d of term %d counts in term %d: it is not on disk", e.Index, e.Term, req.Term)
		}
	}
}

// accept reports whether the peer acknowledges a request.
func (p *simPeer) accept(req *raft.AppendEntriesRequest) bool {
	if !p.gate.finishWrites(raft.RPC{Command: req}) {
		return false
	}
	p.loop <- struct{}{}
	defer func() { <-p.loop }()
	if req.Term < p.term || entryAt(p.logs, req.PrevLogEntry).Term != req.PrevLogTerm {
		return false
	}
	p.leads, p.term = false, req.Term
	differs := func(e *raft.Log) bool { return entryAt(p.logs, e.Index).Term != e.Term }
	if i := slices.IndexFunc(req.Entries, differs); i >= 0 && (p.logs.DeleteRange(req.Entries[i].Index,
		max(req.Entries[i].Index, p.last().Index)) != nil || p.logs.StoreLogs(req.Entries[i:]) != nil) {
		return false
	}
	p.checkDisk(req)
	return true
}

// send replicates some entries, and counts the acknowledgement.
func (p *simPeer) send(to *simPeer, from, n uint64) {
	req := &raft.AppendEntriesRequest{Term: p.term, PrevLogEntry: from - 1, PrevLogTerm: entryAt(p.logs, from-1).Term}
	for i := from; i <= min(from+n, p.last().Index); i++ {
		req.Entries = append(req.Entries, new(entryAt(p.logs, i)))
	}
	go func() { // ends with the bubble
		if to.accept(req) && p.gate.awaitSync(last(req), func() bool { return true }) == nil {
			p.loop <- struct{}{}
			if p.leads && p.term == req.Term {
				p.checkDisk(req)
				p.counted.Add(1)
			}
			<-p.loop
		}
	}()
}

// stand makes a peer stand for election with the vote of another.
func (p *simPeer) stand(other *simPeer) {
	if p.leads, p.term = false, p.term+1; p.term > other.term {
		mine, its := p.last(), other.last()
		other.leads, other.term = false, p.term
		if p.leads = mine.Term > its.Term || mine.Term == its.Term && mine.Index >= its.Index; p.leads {
			p.propose()
		}
	}
}

// TestPowerCutsOfThreePeers runs three peers at random, whose disks are slow and whose power is
// cut. An acknowledgement counts only for entries that are on the disks of both the follower and
// the leader.
func TestPowerCutsOfThreePeers(t *testing.T) {
	var counted atomic.Int64
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { simulate(t, rand.New(rand.NewPCG(seed, 0)), &counted) })
	}
	if n := counted.Load(); n < 1000 {
		t.Errorf("got %d acknowledgements, want some in each run", n)
	}
}

func simulate(t *testing.T, r *rand.Rand, counted *atomic.Int64) {
	var peers [3]*simPeer
	for i := range peers {
		peers[i] = startPeer(t, raft.NewInmemStore(), 0, counted)
		defer func() { close(peers[i].cut) }()
	}
	for range 1000 {
		i, action := r.IntN(3), r.IntN(40)
		p, other := peers[i], peers[(i+1+r.IntN(2))%3]
		switch end := p.last().Index; {
		case action < 5+4*i: // some disks are slower
			select {
			case p.turn <- struct{}{}:
			default: // it writes nothing
			}
		case action == 39:
			peers[i] = startPeer(t, p.InmemStore, p.term, counted)
			p.leads, p.term = false, ^uint64(0) // takes no requests
			close(p.cut)
		case len(p.loop) > 0: // its main loop waits for the disk
		case action > 36 && len(other.loop) == 0:
			p.stand(other)
		case p.leads && action > 28:
			p.propose()
		case p.leads && end > 0:
			p.send(other, 1+r.Uint64N(end), r.Uint64N(4))
		}
		synctest.Wait()
	}
}
