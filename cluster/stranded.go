package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// strandedAfter is how long a stream that is not stale goes on while no leader is known, times the
// multiplier. It is longer than elections take.
const strandedAfter = 5 * time.Second

var errStranded = errors.New("this peer has lost touch with the cluster")

// whileConnected returns a context that ends when this peer has known no leader for a while: a
// stream on a peer that is cut off would be silent for ever, while its client could go on at
// another peer.
func (n *Node) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		for {
			changed := n.changed.wait()
			var expired <-chan time.Time
			var timer *time.Timer
			if since := n.leaderless.Load(); since != nil {
				timer = time.NewTimer(time.Until(since.Add(n.cfg.scale(strandedAfter))))
				expired = timer.C
			}
			select {
			case <-changed:
			case <-expired:
				cancel(errStranded)
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

// stranded words the end of a stream that whileConnected has ended; other errors stay as they are.
func (n *Node) stranded(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStranded) {
		return n.refusal(fmt.Errorf("%w: %w: %s", ErrNoLeader, errStranded, n.why("")))
	}
	return err
}
