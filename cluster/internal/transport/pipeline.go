package transport

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// pipeline drains the answers of a replication pipeline even if nothing waits for them.
//
// After a refusal (a newer term, or a follower whose log does not match), the library's
// reader of answers ends, but its sender may send once more. That answer has no reader, so
// the sender blocks forever on its next send. Replication to this follower stops while
// heartbeats continue, and Raft does not shut down, because it waits for the sender. If the
// answers are drained, the sender continues and notices the end.
//
// It also sends notices of commits (see commits), and holds answers back (see disk.go).
type pipeline struct {
	raft.AppendPipeline

	out  chan raft.AppendFuture
	once sync.Once
	stop chan struct{}

	synced     func(index uint64) (bool, <-chan struct{}) // see Gate.synced
	commits    *commits
	wake       chan struct{}
	unanswered atomic.Pointer[raft.AppendEntriesRequest] // the notice in flight
	sending    sync.Mutex                                // held while a request is sent
	next       raft.AppendEntriesRequest                 // the next notice, with the newest commit index that was sent
}

// AppendEntriesPipeline implements raft.Transport.
func (g *Gate) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := g.NetworkTransport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	return newPipeline(id, inner, g.commits, g.synced), nil
}

func newPipeline(
	id raft.ServerID, inner raft.AppendPipeline, c *commits, synced func(uint64) (bool, <-chan struct{}),
) *pipeline {
	p := &pipeline{
		AppendPipeline: inner, out: make(chan raft.AppendFuture), stop: make(chan struct{}),
		synced: synced, commits: c, wake: make(chan struct{}, 1),
	}
	p.next = c.open(id, p)
	p.wakeUp()
	go p.run()    // ends with Close
	go p.notify() // the same
	return p
}

// run buffers the answers until their entries are on this peer's disk and they are read. There are
// few: the sender ends soon after the reader.
func (p *pipeline) run() {
	in := p.AppendPipeline.Consumer()
	var kept []raft.AppendFuture
	for {
		var out chan<- raft.AppendFuture
		var next raft.AppendFuture
		var written <-chan struct{}
		if len(kept) > 0 {
			next = kept[0]
			var ok bool
			if ok, written = p.synced(last(next.Request())); ok || !next.Response().Success {
				out, written = p.out, nil
			}
		}
		select {
		case f := <-in:
			if !p.answered(f.Request()) {
				kept = append(kept, f)
			}
		case out <- next:
			kept = kept[1:]
		case <-written: // ask again
		case <-p.stop:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline. It sends a large request in parts. Each
// part has its own future in the Consumer's channel; the future of the last part is
// returned.
func (p *pipeline) AppendEntries(
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) (f raft.AppendFuture, err error) {
	for i, part := range split(req) {
		if i > 0 {
			resp = new(raft.AppendEntriesResponse)
		}
		if f, err = p.send(part, resp); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { p.commits.close(p); close(p.stop) })
	return p.AppendPipeline.Close()
}
