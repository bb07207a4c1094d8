package edge

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
)

// ErrDraining ends the streams of a peer that shuts down.
var ErrDraining = errors.New("this peer is shutting down: use another one")

// Follow calls send with this peer's state, now and after changes, until send fails or the stream
// must end. Two calls are at least a pause apart.
func (p *Peer) Follow(ctx context.Context, pause time.Duration, send func(*fsm.View) error) error {
	for {
		changed := p.State.Changed()
		if err := send(p.State.View()); err != nil {
			return err
		}
		if err := Pause(ctx, p.Draining, pause, changed); err != nil {
			return err
		}
	}
}

// CheckCursor returns an error if no event with a cursor was ever sent, or if those after it are
// no longer kept. It reads a linearizable view: a stale one may be older than the view of the
// peer that returned the cursor.
func CheckCursor[E any](
	ctx context.Context, node Cluster, cursor uint64, events func(v *fsm.View, cursor uint64, most int) (E, error),
) error {
	v, err := node.View(call.WithConsistency(ctx, call.Consistency{}))
	if err == nil {
		_, err = events(v, cursor, 1)
	}
	return err
}

// Ended returns an error if a stream must end now.
func Ended(ctx context.Context, draining <-chan struct{}) error {
	select {
	case <-draining:
		return ErrDraining
	default:
		return ctx.Err()
	}
}

// Pause blocks until the state changes, and for at least the minimum time. It returns the
// reason if the stream must end meanwhile.
func Pause(ctx context.Context, draining <-chan struct{}, least time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	case <-draining:
		return ErrDraining
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-draining:
		return ErrDraining
	}
	return nil
}
