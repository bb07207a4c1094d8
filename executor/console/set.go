// Package console has the serial consoles that are open on the leader, and their clients. A run
// keeps a console open, and any number of clients attach to it. It must not open or close the
// console on a BMC.
package console

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Max is the maximum number of open consoles: each is a program that talks to a BMC.
const Max = 256

// tailBytes is the number of bytes of earlier output that a client receives when it attaches.
const tailBytes = 32 << 10

// termBegins is how long Attach waits for a new leader to start its tasks.
const termBegins = time.Second

// Set contains the consoles that are open on this peer, while it leads.
type Set struct {
	state task.State

	mu       sync.Mutex
	terms    int // running terms: one or none
	open     map[string]*Console
	reserved int           // number of consoles that are open, opening or closing
	changed  chan struct{} // closed at the next change of the fields above
}

// NewSet returns an empty Set. It reads runs from state.
func NewSet(state task.State) *Set {
	return &Set{state: state, open: map[string]*Console{}, changed: make(chan struct{})}
}

// Lead begins a term. end ends it.
func (c *Set) Lead() (end func()) {
	c.change(func() { c.terms++ })
	return func() { c.change(func() { c.terms-- }) }
}

// Reserve reserves one of Max slots, before a console is opened. It returns false if all are taken.
func (c *Set) Reserve() (release func(), ok bool) {
	c.change(func() {
		if ok = c.reserved < Max; ok {
			c.reserved++
		}
	})
	return func() { c.change(func() { c.reserved-- }) }, ok
}

// Open adds the console of a run; clients may attach from now on. Close removes it: a nil error
// means that the run has ended.
func (c *Set) Open(run string, hw io.ReadWriter) (o *Console, closeIt func(error)) {
	o = newConsole(run, hw)
	c.change(func() { c.open[run] = o })
	return o, func(err error) {
		o.end(err)
		c.change(func() { delete(c.open, run) })
	}
}

// change calls f under the lock and signals the change.
func (c *Set) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// find returns the console of a run, or nil, whether this peer leads, and a channel that is closed
// when that changes.
func (c *Set) find(run string) (o *Console, leads bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[run], c.terms > 0, c.changed
}

// ErrLost returns the error of a console that is closed because the term has ended.
func ErrLost() error {
	return &outcome.Error{
		Outcome: outcome.NotApplied,
		Err:     fmt.Errorf("%w: this peer no longer leads, and has no open consoles", outcome.ErrNoLeader),
	}
}

// Attach connects a principal to the console that a run keeps open. It waits until the console is
// open. Read returns its output, preceded by some earlier output, and io.EOF when the run
// has ended. Write sends input; only one client at a time may write. Close detaches the
// client, but the run keeps the console open for a while, for other clients or a return.
// Refusals are *fsm.Error. The error is a *outcome.Error if this peer does not
// lead.
func (c *Set) Attach(ctx context.Context, run, principal string, write bool) (io.ReadWriteCloser, error) {
	begins := time.NewTimer(termBegins)
	defer begins.Stop()
	late := false
	for {
		state := c.state.Changed()
		o, leads, changed := c.find(run)
		switch r, ok := c.state.View().Run(run); {
		case o != nil:
			return o.attach(ctx, principal, write)
		case !ok:
			return nil, &fsm.Error{
				Code:    fsm.NotFound,
				Reason:  "RUN_NOT_FOUND",
				Message: fmt.Sprintf("run %q not found", run),
				Meta:    map[string]string{"run_id": run},
			}
		case !r.GetConcurrent():
			return nil, &fsm.Error{
				Code:   fsm.FailedPrecondition,
				Reason: "NO_CONSOLE",
				Message: fmt.Sprintf("run %s of plan %s has no console: start a run of plan/console", run,
					r.GetPlanId()),
				Meta: map[string]string{"run_id": run},
			}
		case fsm.Ended(r):
			return nil, &fsm.Error{
				Code:    fsm.FailedPrecondition,
				Reason:  fsm.ReasonRunFinished,
				Message: fmt.Sprintf("run %s has %s: %s", run, r.GetPhase(), endOf(r)),
				Meta:    map[string]string{"run_id": run},
			}
		case !leads && late:
			return nil, ErrLost()
		}
		select {
		case <-changed:
		case <-state:
		case <-begins.C:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave records that a client that has closed the console will not return. The console is
// closed at once if no other client is attached. Otherwise Leave has no effect: if the
// connection of another client breaks later, that client may return.
func (c *Set) Leave(run string) {
	if o, _, _ := c.find(run); o != nil {
		o.change(func() { o.left = o.here == 0 })
	}
}

// endOf returns the reason why the run of a console has ended.
func endOf(r *holdfastv1.Run) string {
	if msg := r.GetError().GetMessage(); msg != "" {
		return msg
	}
	for _, s := range r.GetSteps() {
		return s.GetMessage()
	}
	return ""
}
