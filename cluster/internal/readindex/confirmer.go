// Package readindex owns the two parts of a linearizable read that need other peers: the proof
// that a leader's term has not been replaced, and the call for an index, which many reads share.
// It must not know Raft: the peer passes in the term that it leads and the voters.
package readindex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// Confirmer proves that a term has not been replaced, because a majority of the voters
// still has it, this peer included. A newer leader needs the votes of a majority, and every
// voter raises its term before it votes.
//
// Each request carries the newest ticket issued before it was sent, and its answer counts
// for all tickets up to that one. So any number of reads share one request per peer, a slow
// peer delays no other, and at most one request per peer is in flight. The confirmer asks
// the most recent responders, as many as a majority needs. It asks the others if those
// leave a caller waiting.
type Confirmer struct {
	ctx    context.Context // the peer's
	voters func() (others []string, self bool)
	ask    func(ctx context.Context, peer string, term uint64) error

	mu         sync.Mutex
	term       uint64
	ticket     uint64            // the newest one issued
	acked      map[string]uint64 // peer → the newest ticket that it has confirmed
	responders []string          // peers, most recent responder first
	busy       map[string]bool
	waiting    []waiter
}

type waiter struct {
	ticket  uint64
	ackedBy string     // a voter known to have the term since the call began; may be empty
	done    chan error // buffered
}

// NewConfirmer returns a confirmer that works until ctx ends. voters returns the other voters
// of the latest configuration, and whether this peer is one. ask returns nil if a peer confirms
// that it has the term.
func NewConfirmer(
	ctx context.Context,
	voters func() (others []string, self bool),
	ask func(ctx context.Context, peer string, term uint64) error,
) *Confirmer {
	return &Confirmer{ctx: ctx, voters: voters, ask: ask}
}

const (
	confirmTimeout = time.Second
	confirmPause   = 5 * time.Millisecond
	// confirmHedge is how long a call waits before the redundant peers are asked too.
	confirmHedge = 5 * time.Millisecond
)

// Confirm blocks until a majority has confirmed the term after the call began. It does not
// notice if this peer itself leaves the term: the caller must check that. ackedBy names a
// voter that has already confirmed the term since the caller's read began. It may be empty.
func (c *Confirmer) Confirm(ctx context.Context, term uint64, ackedBy string) error {
	c.mu.Lock()
	if term < c.term {
		c.mu.Unlock()
		return fmt.Errorf("%w: term %d has ended", outcome.ErrNotLeader, term)
	}
	if term > c.term {
		c.reset(term)
	}
	c.ticket++
	w := waiter{ticket: c.ticket, ackedBy: ackedBy, done: make(chan error, 1)}
	c.waiting = append(c.waiting, w)
	c.settle()
	others, _ := c.voters()
	for _, id := range others {
		if len(c.waiting) > 0 && !c.busy[id] {
			c.busy[id] = true
			go c.serve(id) //nolint:contextcheck // the request is shared by many callers and ends when none waits
		}
	}
	c.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		c.forget(w.ticket)
		return ctx.Err()
	case <-c.ctx.Done():
		return outcome.ErrStopping
	}
}

// forget removes a canceled call, so that no peer is asked on its behalf.
func (c *Confirmer) forget(ticket uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool { return w.ticket == ticket })
}

// End fails all calls that wait for a term older than this one.
func (c *Confirmer) End(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term > c.term {
		c.reset(term)
	}
}

func (c *Confirmer) reset(term uint64) {
	for _, w := range c.waiting {
		w.done <- fmt.Errorf("%w: term %d has ended", outcome.ErrNotLeader, c.term)
	}
	c.term, c.waiting, c.acked = term, nil, map[string]uint64{}
	if c.busy == nil {
		c.busy = map[string]bool{}
	}
}

// serve asks one peer until no call needs its answer.
func (c *Confirmer) serve(id string) {
	hedged := uint64(0) // the oldest ticket for which this peer was held back
	for {
		c.mu.Lock()
		others, _ := c.voters()
		if len(c.waiting) == 0 || c.ctx.Err() != nil || !slices.Contains(others, id) {
			delete(c.busy, id)
			c.mu.Unlock()
			return
		}
		if c.acked[id] >= c.waiting[len(c.waiting)-1].ticket {
			// This peer has confirmed every waiting ticket. Other goroutines ask the other peers.
			delete(c.busy, id)
			c.mu.Unlock()
			return
		}
		if hedged != c.waiting[0].ticket && c.redundant(id, others) { // a new call, which other peers can confirm
			hedged = c.waiting[0].ticket
			c.mu.Unlock()
			wait.Sleep(c.ctx, confirmHedge)
			continue
		}
		term, ticket := c.term, c.ticket
		c.mu.Unlock()

		ctx, cancel := context.WithTimeout(c.ctx, confirmTimeout)
		err := c.ask(ctx, id, term)
		cancel()

		c.mu.Lock()
		if err == nil && term == c.term {
			c.acked[id] = ticket
			others := slices.DeleteFunc(c.responders, func(p string) bool { return p == id })
			c.responders = append([]string{id}, others...)
			c.settle()
		}
		c.mu.Unlock()
		if err != nil {
			wait.Sleep(c.ctx, confirmPause)
		}
	}
}

// redundant reports whether a majority is possible without this peer, because enough others
// responded more recently. The lock must be held.
func (c *Confirmer) redundant(id string, others []string) bool {
	_, self := c.voters()
	before := 0
	for _, p := range c.responders {
		if p == id {
			break
		}
		if slices.Contains(others, p) {
			before++
		}
	}
	return c.majority(before, len(others), self)
}

// majority reports whether have of the others are a majority, counting this peer if it
// votes.
func (c *Confirmer) majority(have, others int, self bool) bool {
	if self {
		have, others = have+1, others+1
	}
	return have > others/2
}

// settle answers the calls whose ticket a majority has confirmed. The lock must be held.
func (c *Confirmer) settle() {
	others, self := c.voters()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool {
		have := 0
		for _, id := range others {
			if c.acked[id] >= w.ticket || id == w.ackedBy {
				have++
			}
		}
		if !c.majority(have, len(others), self) {
			return false
		}
		w.done <- nil
		return true
	})
}
