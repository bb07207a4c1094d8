package sshexec

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// After two refused logins no more are tried for a while: some hosts lock the account at the third.
const (
	maxRefused = 2
	refusedFor = 10 * time.Minute
)

// refusals counts consecutive refused logins. Expired entries are dropped.
type refusals struct {
	mu    sync.Mutex
	seen  map[target]refusal
	swept time.Time
}

type refusal struct {
	times int
	with  [sha256.Size]byte // digest of the login; a different one is tried at once
	until time.Time
}

func (r *refusals) allow(to target, l Login) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.seen[to]
	if !ok || was.times < maxRefused || was.with != l.digest() || time.Now().After(was.until) {
		return nil
	}
	return providers.Errorf(providers.Auth, "log in to "+to.host+" at "+to.address,
		"not tried: the host refused user %s %d times; change secret %q, or wait until %s",
		l.user(), was.times, to.ref, was.until.UTC().Format(time.RFC3339))
}

func (r *refusals) count(to target, l Login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(time.Now())
	was := r.seen[to]
	if was.with != l.digest() || time.Now().After(was.until) {
		was = refusal{with: l.digest()}
	}
	was.times++
	was.until = time.Now().Add(refusedFor)
	r.seen[to] = was
}

// sweep drops expired entries, at most once per refusedFor.
func (r *refusals) sweep(now time.Time) {
	if now.Sub(r.swept) < refusedFor {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.seen, func(_ target, was refusal) bool { return now.After(was.until) })
}

func (r *refusals) clear(to target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, to)
}
