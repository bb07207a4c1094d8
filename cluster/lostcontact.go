package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// leaderlessLimit is how long a stream that is not stale continues without a known leader,
// times the multiplier. Elections take less.
const leaderlessLimit = 5 * time.Second

var errLostContact = errors.New("this peer has lost contact with the cluster")

// whileConnected returns a context that is canceled when this peer has known no leader for
// leaderlessLimit. Otherwise a stream on an isolated peer would stay silent forever,
// although its client could use another peer.
func (n *Node) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := n.changed.Wait()
			var expired <-chan time.Time
			var timer *time.Timer
			if since := n.leaderless.Load(); since != nil {
				timer = time.NewTimer(time.Until(since.Add(n.cfg.scale(leaderlessLimit))))
				expired = timer.C
			}
			select {
			case <-changed:
			case <-expired:
				cancel(errLostContact)
			case <-ctx.Done():
			}
			if timer != nil {
				timer.Stop()
			}
			if ctx.Err() != nil {
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// lostContact returns the error of a stream that whileConnected has ended. Other errors are
// returned unchanged.
func (n *Node) lostContact(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errLostContact) {
		return n.refusal(fmt.Errorf("%w: %w: %s", ErrNoLeader, errLostContact, n.why("")))
	}
	return err
}
