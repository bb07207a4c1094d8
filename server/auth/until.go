package auth

import (
	"context"
	"sync"
	"time"
)

// checkEvery is how often an open stream checks that its caller's token is not revoked. Each
// message checks it too.
const checkEvery = 2 * time.Second

// ends reports whether the credentials of a caller can end before its connection does.
func (c *Caller) ends() bool {
	return c != nil && (c.Identity.GetTokenId() != "" || !c.until.IsZero() || c.session != nil)
}

// Until returns a context for a stream of the caller. It ends with the caller's credentials: when
// the token or access token expires, or soon after the token is revoked. Its cause is then an
// *Error. The function releases its resources. Calls that a peer forwards end where they arrived.
func Until(ctx context.Context) (context.Context, context.CancelFunc) {
	c := CallerFrom(ctx)
	if !c.ends() || c.gate == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &credentialWatch{c: c, seen: c.seen, end: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.pause(), w.check)
	return ctx, w.stop
}

// credentialWatch ends the context of a stream with the credentials of its caller. It has a timer
// and no goroutine, because a peer has thousands of streams.
type credentialWatch struct {
	c   *Caller
	end context.CancelCauseFunc

	mu      sync.Mutex
	seen    seen
	timer   *time.Timer
	stopped bool
}

// pause returns the time until the next check.
func (w *credentialWatch) pause() time.Duration {
	next, now := checkEvery, w.c.gate.now()
	for _, end := range []time.Time{w.c.until, w.seen.expires} {
		if !end.IsZero() {
			next = max(0, min(next, end.Sub(now)))
		}
	}
	return next
}

func (w *credentialWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	now, err := w.c.gate.recheck(w.c, w.seen)
	if err != nil {
		w.stopped = true
		w.end(err)
		return
	}
	w.seen = now
	w.timer.Reset(w.pause())
}

func (w *credentialWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
	w.end(nil)
}
