package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The limits of linearizable reads for unknown credentials. Each peer looks up a new
// token once; sources that send garbage have to wait.
const (
	lookupsPerSecond       = 200
	lookupsPerSourceSecond = 10
	lookupsBurst           = 20 // per source
	maxSources             = 4096
	maxMisses              = 8192 // hashes of credentials that were not found
)

// lookups limits the reads that unknown credentials cause.
type lookups struct {
	all     *rate.Limiter
	sources *lru.Cache[string, *rate.Limiter]
	misses  *lru.Cache[string, struct{}] // hashes; tokens are random, so a new one is never among them
}

func newLookups() *lookups {
	return &lookups{
		all:     rate.NewLimiter(lookupsPerSecond, lookupsPerSecond),
		sources: newLRU[*rate.Limiter](maxSources),
		misses:  newLRU[struct{}](maxMisses),
	}
}

// newLRU returns a cache with string keys.
func newLRU[V any](size int) *lru.Cache[string, V] {
	c, err := lru.New[string, V](size)
	if err != nil {
		panic(err) // it fails only for sizes below one
	}
	return c
}

// seen reports whether a hash was not found recently. Callers search the local state
// first, so a token that appears later is found there.
func (s *lookups) seen(hash []byte) bool { return s.misses.Contains(string(hash)) }

func (s *lookups) remember(hash []byte) { s.misses.Add(string(hash), struct{}{}) }

// allow spends one read of the budget of a source, and of the common budget.
func (s *lookups) allow(source string) *Error {
	if bucket(s.sources, source, lookupsPerSourceSecond, lookupsBurst).Allow() && s.all.Allow() {
		return nil
	}
	return &Error{
		Code: codes.ResourceExhausted, Reason: ReasonRateLimit, Retry: time.Second,
		Message: "too many unknown tokens from " + source + ": wait a second: a new token becomes known shortly",
	}
}

// maxKnown is the size of the cache. If it is exceeded, the cache is emptied.
const maxKnown = 65536

// known is a cache of valid tokens by their hashes. Any change of a token empties it, so
// a revocation counts at once.
type known struct {
	mu      sync.RWMutex
	in      any // Records.TokensMark
	callers map[[sha256.Size]byte]knownCaller
}

type knownCaller struct {
	identity *holdfastv1.Identity // shared by many calls, so it must not be changed
	seen     seen
}

// get returns the bearer of a token, if it was cached at the same mark and has not
// expired.
func (k *known) get(mark any, hash [sha256.Size]byte, now time.Time) (knownCaller, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.in != mark {
		return knownCaller{}, false
	}
	c, ok := k.callers[hash]
	return c, ok && c.seen.lasts(now)
}

func (k *known) put(hash [sha256.Size]byte, c knownCaller) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.in != c.seen.in || len(k.callers) >= maxKnown {
		k.in, k.callers = c.seen.in, map[[sha256.Size]byte]knownCaller{}
	}
	k.callers[hash] = c
}
