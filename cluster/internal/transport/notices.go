package transport

import (
	"sync"

	"github.com/hashicorp/raft"
)

// A follower applies an entry when a request tells it that the entry is committed. The library
// sends the commit index only with the next entry, or after CommitTimeout. So the pipelines send
// a notice at once: a request without entries, as the library sends after CommitTimeout. Any
// peer understands it, and without notices the library's own requests have the same effect.
//
// A notice must not make a follower commit an entry that is not committed:
//
//   - It has the term of its pipeline, and only an entry of that term leads to one. Then the log
//     of the term's leader is committed up to that entry, even if this peer has lost the
//     leadership since.
//   - Its commit index is at most the index of its previous entry, which is the last entry that
//     the pipeline has sent. The library commits all of a follower's log up to the commit index,
//     and behind the previous entry the follower may have entries of an older leader.

// commits holds the newest committed entry for the pipelines.
type commits struct {
	mu          sync.Mutex
	index, term uint64
	pipelines   map[*pipeline]struct{}
	// matched has, by follower, the request that follows the last one that the follower accepted
	// outside a pipeline. The next pipeline continues there.
	matched map[raft.ServerID]raft.AppendEntriesRequest
}

func newCommits() *commits {
	return &commits{
		pipelines: map[*pipeline]struct{}{}, matched: map[raft.ServerID]raft.AppendEntriesRequest{},
	}
}

// Committed sends notices of a committed entry to the followers. It does not block.
func (g *Gate) Committed(index, term uint64) { g.commits.add(index, term) }

func (c *commits) add(index, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.term = index, term
	for p := range c.pipelines {
		p.wakeUp()
	}
}

// through returns the index of the newest committed entry if it has that term, otherwise 0.
func (c *commits) through(term uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term {
		return 0
	}
	return c.index
}

func (c *commits) match(id raft.ServerID, req *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.matched[id] = following(req)
}

// open adds a pipeline and returns the request that follows the follower's last one.
func (c *commits) open(id raft.ServerID, p *pipeline) raft.AppendEntriesRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pipelines[p] = struct{}{}
	return c.matched[id]
}

func (c *commits) close(p *pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pipelines, p)
}

// following returns the request without entries that may follow a request, with the same commit
// index.
func following(req *raft.AppendEntriesRequest) raft.AppendEntriesRequest {
	next := *req
	if n := len(req.Entries); n > 0 {
		next.PrevLogEntry, next.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	next.Entries = nil
	return next
}

// notify sends notices until the pipeline closes.
func (p *pipeline) notify() {
	for {
		select {
		case <-p.wake:
			p.notice()
		case <-p.stop:
			return
		}
	}
}

// wakeUp makes the pipeline send a notice if one is due. Calls in quick succession share one.
func (p *pipeline) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// notice sends the follower the newest commit index. At most one notice is unanswered, so that
// none pile up before a slow follower.
func (p *pipeline) notice() {
	if p.unanswered.Load() != nil {
		return // its answer wakes the pipeline again
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	index, ok := p.due()
	if !ok {
		return
	}
	p.next.LeaderCommitIndex = index
	req := p.next
	p.unanswered.Store(&req)
	// After an error the connection is closed, which Raft's next request notices.
	_, _ = p.AppendPipeline.AppendEntries(&req, new(raft.AppendEntriesResponse))
}

// due returns the commit index for the next notice. ok is false if the follower knows it. The
// caller holds sending.
func (p *pipeline) due() (index uint64, ok bool) {
	index = min(p.commits.through(p.next.Term), p.next.PrevLogEntry)
	return index, index > p.next.LeaderCommitIndex
}

// send sends one of Raft's requests.
func (p *pipeline) send(
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) (raft.AppendFuture, error) {
	p.sending.Lock()
	defer p.sending.Unlock()
	known := p.next.LeaderCommitIndex
	p.next = following(req)
	p.next.LeaderCommitIndex = max(p.next.LeaderCommitIndex, known)
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if _, ok := p.due(); ok { // committed after Raft had made the request
		p.wakeUp()
	}
	return f, err
}

// answered reports whether a request was the unanswered notice. Raft must not see its answer.
func (p *pipeline) answered(req *raft.AppendEntriesRequest) bool {
	if p.unanswered.Load() != req {
		return false
	}
	p.unanswered.Store(nil)
	p.wakeUp()
	return true
}
