package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errEnded is returned by a part whose stream ended normally.
var errEnded = errors.New("stream ended")

// part serves one connection's part of a stream that spans several connections. It reports
// whether it received anything and why it ended. It must wrap errors of the caller's
// function in callerError.
type part func(ctx context.Context, cc grpc.ClientConnInterface) (received bool, err error)

// callerError is an error of the caller's function. It always ends the stream.
type callerError struct{ err error }

func (e callerError) Error() string { return e.err.Error() }
func (e callerError) Unwrap() error { return e.err }

// receive calls f for each message of a stream, until the stream breaks or ends with io.EOF. It
// returns the results of a part. err is the error of the call that opened the stream.
func receive[M any](stream grpc.ServerStreamingClient[M], err error, f func(*M) error) (received bool, _ error) {
	if err != nil {
		return false, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		if err := f(m); err != nil {
			return true, callerError{err}
		}
	}
}

// finite returns the results of a part whose stream has a normal end.
func finite(received bool, err error) (bool, error) {
	if errors.Is(err, io.EOF) {
		return received, errEnded
	}
	return received, err
}

// follow runs a stream across peers: if a part breaks, the next peer serves the next part. If the
// context's time is up before any peer has served a part, the error is a CallError with the reason.
func (p *peers) follow(ctx context.Context, method string, next part) error {
	alone := time.Now() // since when there is no peer
	var wrong mismatches
	var last *CallError            // of the part before
	served, silent := false, false // silent: last says nothing but that the time is up
	for tries := 1; ; tries++ {
		peer := p.pick()
		began := time.Now()
		received, try, err := p.part(ctx, peer, method, next)
		lasted, cut := time.Since(began) > p.tryTimeout, wasCut(ctx, err)
		served = served || try.accepted.Load()
		mine, failed := errors.AsType[callerError](err)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case failed:
			return mine.err
		case ctx.Err() != nil:
			return cutOff(ctx.Err(), served || silent, last)
		case !resumable(err):
			return err
		}
		if received || lasted {
			alone, tries = time.Now(), 1
		}
		p.order.Leave(peer.number)
		c := p.cfg.Logger.With("method", method, "addr", peer.addr)
		c.DebugContext(ctx, "stream broke, continuing with another peer", "err", err)
		wrong.note(peer.number, err, p.cfg.TLS != nil)
		wait := max(wrong.pause(len(p.all), p.delay(tries)), retryDelay(err))
		if last == nil || !cut && !vague(err) { // the refusal before says more than the cut
			last = &CallError{Method: method, Addr: peer.addr, Tries: tries, Err: err}
			silent = cut && try.sent.Load()
		}
		limit := p.cfg.ReconnectTimeout
		// After a cut the context is about to end, and has the reason.
		if limit > 0 && !cut && time.Since(alone)+wait > limit || wrong.permanent(len(p.all)) {
			return last
		}
		if err := sleep(ctx, wait); err != nil {
			return cutOff(err, served || silent, last)
		}
	}
}

// cutMargin is how long before the deadline a peer may end a stream because of it: the clocks of
// both sides differ by as much as the request takes.
const cutMargin = 50 * time.Millisecond

// wasCut reports whether the deadline ended a part, here or at the peer.
func wasCut(ctx context.Context, err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled:
	default:
		return false // an answer
	}
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) < cutMargin
}

// cutOff returns the error of a stream that the context has ended: the context's, or that of the
// last try if the time was up before a peer served the stream.
func cutOff(cause error, served bool, last *CallError) error {
	if served || last == nil || !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	last.Cause = cause
	return last
}

// part runs one part with its own context, so that its stream is always released. If there
// is another peer, the watchdog ends a stream whose peer does not respond.
func (p *peers) part(
	ctx context.Context, peer *peer, method string, next part,
) (received bool, _ *try, err error) {
	ctx, release := p.watchdog(ctx, peer, streamQuiet)
	defer release()
	ctx, try := peer.watch(p.outgoing(ctx, method))
	received, err = next(ctx, peer.conn)
	if hung := watchdogError(ctx); hung != nil {
		if _, mine := errors.AsType[callerError](err); !mine {
			err = hung
		}
	}
	return received, try, err
}

// resumable reports whether another peer may succeed. A stopping server may end its streams
// with CANCELED.
func resumable(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return tooMany(err)
}
