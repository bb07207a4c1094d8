package auth

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
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
