package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// confirmer proves that a term has not been replaced: a majority of the voters, this one included,
// still has it. A newer leader needs the votes of a majority, and each of those has raised its term
// before it voted.
//
// Every question carries the newest ticket that was handed out before it was asked; its answer is
// good for all tickets up to that one. So any number of reads share one question to each peer, a
// slow peer holds up nobody, and at most one question is on its way to each. Those are asked whose
// answers came last, as many as a majority needs; the others when these keep somebody waiting.
type confirmer struct {
	ctx    context.Context // of the node
	voters func() (others []string, self bool)
	ask    func(ctx context.Context, peer string, term uint64) error

	mu      sync.Mutex
	term    uint64
	ticket  uint64            // the newest one handed out
	acked   map[string]uint64 // peer → the newest ticket that its answers are good for
	prompt  []string          // peers, the one that has answered last first
	busy    map[string]bool
	waiting []waiter
}

type waiter struct {
	ticket  uint64
	voucher string     // a voter that has the term, as it said after the ticket's call had begun; empty: none
	done    chan error // buffered
}

var errStopping = errors.New("this peer is stopping")

const (
	confirmTimeout = time.Second
	confirmPause   = 5 * time.Millisecond
	// confirmHedge is how long somebody waits before those are asked whose answers a majority may
	// do without.
	confirmHedge = 5 * time.Millisecond
)

// confirm waits until a majority has confirmed the term after the call. The caller checks that it
// still leads in that term: a term that this peer itself has left is not noticed here. A voucher is
// a voter that has already confirmed it, after whatever the call is for had begun; empty: none has.
func (c *confirmer) confirm(ctx context.Context, term uint64, voucher string) error {
	c.mu.Lock()
	if term < c.term {
		c.mu.Unlock()
		return fmt.Errorf("%w: term %d is over", ErrNotLeader, term)
	}
	if term > c.term {
		c.reset(term)
	}
	c.ticket++
	w := waiter{ticket: c.ticket, voucher: voucher, done: make(chan error, 1)}
	c.waiting = append(c.waiting, w)
	c.settle()
	others, _ := c.voters()
	for _, id := range others {
		if len(c.waiting) > 0 && !c.busy[id] {
			c.busy[id] = true
			go c.serve(id) //nolint:contextcheck // the question is shared by many callers and ends when nobody waits
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
		return errStopping
	}
}

// forget drops a call that waits no more, so that no peer is asked on its behalf.
func (c *confirmer) forget(ticket uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool { return w.ticket == ticket })
}

// end fails everybody who waits for an older term than this one to be confirmed.
func (c *confirmer) end(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term > c.term {
		c.reset(term)
	}
}

func (c *confirmer) reset(term uint64) {
	for _, w := range c.waiting {
		w.done <- fmt.Errorf("%w: term %d is over", ErrNotLeader, c.term)
	}
	c.term, c.waiting, c.acked = term, nil, map[string]uint64{}
	if c.busy == nil {
		c.busy = map[string]bool{}
	}
}

// serve asks one peer until nobody waits for it.
func (c *confirmer) serve(id string) {
	hedged := uint64(0) // who was left to the others for a while
	for {
		c.mu.Lock()
		others, _ := c.voters()
		if len(c.waiting) == 0 || c.ctx.Err() != nil || !slices.Contains(others, id) {
			delete(c.busy, id)
			c.mu.Unlock()
			return
		}
		if c.acked[id] >= c.waiting[len(c.waiting)-1].ticket {
			// This peer has confirmed all; the others will be asked by their own.
			delete(c.busy, id)
			c.mu.Unlock()
			return
		}
		if hedged != c.waiting[0].ticket && c.spare(id, others) { // a new call waits, and others are asked for it
			hedged = c.waiting[0].ticket
			c.mu.Unlock()
			c.pause(confirmHedge)
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
			c.prompt = append([]string{id}, slices.DeleteFunc(c.prompt, func(p string) bool { return p == id })...)
			c.settle()
		}
		c.mu.Unlock()
		if err != nil {
			c.pause(confirmPause)
		}
	}
}

func (c *confirmer) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// spare reports whether a majority may do without a peer's answer, because enough others have
// answered more lately. It is called with the lock held.
func (c *confirmer) spare(id string, others []string) bool {
	_, self := c.voters()
	before := 0
	for _, p := range c.prompt {
		if p == id {
			break
		}
		if slices.Contains(others, p) {
			before++
		}
	}
	return c.majority(before, len(others), self)
}

// majority reports whether so many of the others are one, with this peer if it may vote.
func (c *confirmer) majority(have, others int, self bool) bool {
	if self {
		have, others = have+1, others+1
	}
	return have > others/2
}

// settle answers those whose ticket a majority has confirmed. It is called with the lock held.
func (c *confirmer) settle() {
	others, self := c.voters()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool {
		have := 0
		for _, id := range others {
			if c.acked[id] >= w.ticket || id == w.voucher {
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
