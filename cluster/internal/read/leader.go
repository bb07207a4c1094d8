package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// ErrNoMoreTime is wrapped by errors that leave no time for another try.
var ErrNoMoreTime = errors.New("no time left")

// lastTry is an error that leaves no time for another try. Callers see its cause alone.
type lastTry struct{ error }

// Unwrap returns the cause and ErrNoMoreTime.
func (e lastTry) Unwrap() []error { return []error{e.error, ErrNoMoreTime} }

// Server returns the peer that serves the call: this one if it leads and is ready,
// otherwise the known leader. It waits for one until hold. If here is true, it is served
// here or not at all, as a call that another peer has forwarded.
func (r *Reader) Server(ctx context.Context, hold time.Time, here bool) (string, error) {
	if id, ok := r.target(here); ok {
		return id, nil
	}
	ctx, cancel := context.WithDeadline(ctx, hold)
	defer cancel()
	if here {
		if err := r.WaitReady(ctx); err != nil {
			return "", r.Refusal(err)
		}
		return r.cfg.Self, nil
	}
	for {
		changed := r.cfg.Changed.Wait()
		if id, ok := r.target(here); ok {
			return id, nil
		}
		t := time.NewTimer(pollLeader)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			id, _, _ := r.cfg.Leader()
			return "", r.Refusal(lastTry{fmt.Errorf("%w: %s", outcome.ErrNoLeader, r.cfg.Why(id))})
		case <-r.cfg.Ended:
			t.Stop()
			// This peer learns of no leader any more, so the caller should use another
			// peer.
			return "", r.Refusal(lastTry{fmt.Errorf("%w: %w", outcome.ErrNoLeader, r.cfg.Stopping())})
		}
		t.Stop()
	}
}

// target returns the peer that can serve the call now. ok is false if there is none.
func (r *Reader) target(here bool) (id string, ok bool) {
	if _, leads := r.terms.Current(); leads {
		return r.cfg.Self, true
	}
	id, self, ok := r.cfg.Leader()
	return id, ok && !self && !here
}

// leaderGrace is how long a call to a leader may continue once another leader is known,
// because its answer may be in transit.
const leaderGrace = 250 * time.Millisecond

var errReplaced = errors.New("another peer leads now")

// WhileLeads returns a context that is canceled soon after another peer has become the
// leader. A host that vanished does not close its connections, so a call to it would hang.
func (r *Reader) WhileLeads(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := r.cfg.Changed.Wait()
			if now, _, ok := r.cfg.Leader(); ok && now != id {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(leaderGrace):
			cancel(errReplaced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// WaitReady blocks until this peer is ready to lead. It returns ErrNotLeader if it does not
// lead.
func (r *Reader) WaitReady(ctx context.Context) error {
	for {
		changed := r.cfg.Changed.Wait()
		if _, ok := r.terms.Current(); ok {
			return nil
		}
		if !r.cfg.Leads() {
			return outcome.ErrNotLeader
		}
		select {
		case <-changed:
		case <-time.After(pollLeader):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", r.terms.NotReady(), ctx.Err())
		}
	}
}

// Pause is the exponential backoff between tries. A change of the leader ends it early.
type Pause struct {
	r    *Reader
	next time.Duration
}

// NewPause returns the backoff of a call.
func (r *Reader) NewPause() *Pause { return &Pause{r: r, next: pollLeader} }

// Wait waits, and reports whether there is time for another try.
func (p *Pause) Wait(ctx context.Context) bool {
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(2*p.next, maxPause)
	select {
	case <-p.r.cfg.Changed.Wait():
	case <-t.C:
	case <-ctx.Done():
	case <-p.r.cfg.Ended:
		return false
	}
	return ctx.Err() == nil && !p.r.cfg.Stopped()
}
