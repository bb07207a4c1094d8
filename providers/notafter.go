package providers

import (
	"context"
	"time"
)

// DeliverTime bounds how long a provider lets an effect be on its way after its last check of the
// not-after time: a packet that was lost is not sent again for longer (TCP_USER_TIMEOUT, in package
// guard). What the hardware takes after that is Settler's.
const DeliverTime = 500 * time.Millisecond

type notAfterKey struct{}

// WithNotAfter returns a context in which effects may be sent before t, and not later. t is
// time.Now().Add(…), so that it has both clocks.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, notAfterKey{}, t)
}

// NotAfter returns the time from which on no effect may be sent any more. Calls that change nothing
// have none.
func NotAfter(ctx context.Context) (t time.Time, ok bool) {
	t, ok = ctx.Value(notAfterKey{}).(time.Time)
	return t, ok
}

// Unhurried is ctx for what only prepares an effect, such as a login: it is bound by no not-after
// time. A context without one stays as it is.
func Unhurried(ctx context.Context) context.Context {
	if _, ok := NotAfter(ctx); !ok {
		return ctx
	}
	return WithNotAfter(ctx, time.Now().Add(maxPreparation))
}

// maxPreparation is longer than anything that prepares an effect: operations have deadlines.
const maxPreparation = 24 * time.Hour

// InTime returns an error of class Late when the effect named by op must not be sent any more. Both
// clocks have to say that it is in time: the monotonic one goes on while the process is stopped and
// cannot be set; the wall clock has gone on while the host slept.
func InTime(ctx context.Context, op string) error {
	t, ok := NotAfter(ctx)
	if !ok {
		return nil
	}
	now := time.Now()
	if by := max(now.Sub(t), now.Round(0).Sub(t.Round(0))); by >= 0 {
		return Errorf(Late, op, "not sent: it is %s too late; whoever leads now may have acted", by)
	}
	return nil
}

type confirmKey struct{}

// WithConfirm returns a context in which Confirmed asks confirm. confirm asks a majority whether
// this leader has been replaced, and gives the time after which no effect may be sent on its word.
func WithConfirm(ctx context.Context, confirm func(ctx context.Context) (notAfter time.Time, err error)) context.Context {
	return context.WithValue(ctx, confirmKey{}, confirm)
}

// Confirmed returns the context for an effect that has been prepared, with a not-after time of its
// own where the caller can give one: on a slow host, what comes before the effect may take longer
// than any effect may wait. An error is of class Late: the effect must not be sent.
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
