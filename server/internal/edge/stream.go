package edge

import (
	"context"
	"errors"
	"time"
)

// ErrDraining ends the streams of a peer that shuts down.
var ErrDraining = errors.New("this peer is shutting down: use another one")

// Ended returns the reason why a stream must end now, or nil.
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
