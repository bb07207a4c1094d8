package cluster

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline takes the answers of a replication pipeline also when nobody waits for them.
//
// When an answer is a refusal (a newer term, a follower whose log does not fit), the library's
// reader of answers ends, but its sender may send once more. The answer to that has no taker, and
// so the sender waits for ever to hand over what it sends next: replication to this follower stands
// still while heartbeats go on, and Raft does not shut down, because it waits for the sender. With
// the answers taken the sender goes on, and notices.
type pipeline struct {
	raft.AppendPipeline

	out  chan raft.AppendFuture
	once sync.Once
	stop chan struct{}
}

// AppendEntriesPipeline implements raft.Transport.
func (g *gate) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := g.NetworkTransport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, out: make(chan raft.AppendFuture), stop: make(chan struct{})}
	go p.run() // ends with Close
	return p, nil
}

// run keeps the answers until they are asked for. There are few: the sender ends soon after their
// reader.
func (p *pipeline) run() {
	in := p.AppendPipeline.Consumer()
	var kept []raft.AppendFuture
	for {
		var out chan<- raft.AppendFuture
		var next raft.AppendFuture
		if len(kept) > 0 {
			out, next = p.out, kept[0]
		}
		select {
		case f := <-in:
			kept = append(kept, f)
		case out <- next:
			kept = kept[1:]
		case <-p.stop:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline. A large request is sent in parts, each with a
// future of its own among the Consumer's; the future of the last part is returned.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (f raft.AppendFuture, err error) {
	for i, part := range split(req) {
		if i > 0 {
			resp = new(raft.AppendEntriesResponse)
		}
		if f, err = p.AppendPipeline.AppendEntries(part, resp); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.stop) })
	return p.AppendPipeline.Close()
}
