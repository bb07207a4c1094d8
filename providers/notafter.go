package providers

import (
	"context"
	"time"
)

// DeliverTime bounds how long an effect may be in transit after the last check of its not-after
// time. A lost packet is not retransmitted for longer (TCP_USER_TIMEOUT, in package guard). The
// time that the hardware needs after that is the Settler's.
const DeliverTime = 500 * time.Millisecond

type notAfterKey struct{}

// WithNotAfter returns a context in which effects may be sent until t. Build t with
// time.Now().Add(…), so that it carries both the wall and the monotonic clock.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, notAfterKey{}, t)
}

// NotAfter returns the time from which on no effect may be sent. Calls that change nothing have
// none.
func NotAfter(ctx context.Context) (t time.Time, ok bool) {
	t, ok = ctx.Value(notAfterKey{}).(time.Time)
	return t, ok
}

// Unhurried returns a context for the preparation of an effect, such as a login. It lifts the
// not-after time of ctx. A ctx without one is returned unchanged.
func Unhurried(ctx context.Context) context.Context {
	if _, ok := NotAfter(ctx); !ok {
		return ctx
	}
	return WithNotAfter(ctx, time.Now().Add(maxPreparation))
}

// maxPreparation exceeds any preparation, because operations have deadlines.
const maxPreparation = 24 * time.Hour

// InTime returns an error of class Late if the not-after time of ctx has passed. op names the
// effect. Both clocks must be before that time: the monotonic clock runs on while the process is
// stopped and cannot be set; the wall clock runs on while the host sleeps.
func InTime(ctx context.Context, op string) error {
	t, ok := NotAfter(ctx)
	if !ok {
		return nil
	}
	now := time.Now()
	if by := max(now.Sub(t), now.Round(0).Sub(t.Round(0))); by >= 0 {
		return Errorf(Late, op, "not sent: it is %s too late; another leader may have acted", by)
	}
	return nil
}

type confirmKey struct{}

// WithConfirm returns a context in which Confirmed calls confirm. confirm checks with a majority
// that this leader has not been replaced. It returns the time until which effects may be sent.
func WithConfirm(
	ctx context.Context, confirm func(ctx context.Context) (notAfter time.Time, err error),
) context.Context {
	return context.WithValue(ctx, confirmKey{}, confirm)
}

// Confirmed returns the context for sending an effect that has been prepared. If the caller
// supplied a confirm function, the context has a fresh not-after time: on a slow host the
// preparation can take longer than any effect may wait. An error has class Late: the effect must
// not be sent.
func Confirmed(ctx context.Context, op string) (context.Context, error) {
	confirm, ok := ctx.Value(confirmKey{}).(func(context.Context) (time.Time, error))
	if !ok {
		return ctx, InTime(ctx, op)
	}
	t, err := confirm(ctx)
	if err != nil {
		return ctx, Errorf(Late, op, "not sent: %w", err)
	}
	ctx = WithNotAfter(ctx, t)
	return ctx, InTime(ctx, op)
}
