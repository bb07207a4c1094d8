package auth

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
)

// How often credentials that are not known here are worth a linearizable read. A new token is
// looked up once on each peer; who sends garbage is told to wait.
const (
	looksPerSecond       = 200
	looksPerSourceSecond = 10
	looksBurst           = 20 // per source
	maxSources           = 4096
	maxForgotten         = 8192 // hashes that were looked for in vain
)

// secondLooks bounds the work that unknown credentials can make.
type secondLooks struct {
	all     *rate.Limiter
	sources *lru.Cache[string, *rate.Limiter]
	vain    *lru.Cache[string, struct{}] // hashes; a token has too many bits to be made again
}

func newSecondLooks() *secondLooks {
	return &secondLooks{all: rate.NewLimiter(looksPerSecond, looksPerSecond), sources: newLRU[*rate.Limiter](maxSources), vain: newLRU[struct{}](maxForgotten)}
}

// newLRU returns a cache of strings.
func newLRU[V any](size int) *lru.Cache[string, V] {
	c, err := lru.New[string, V](size)
	if err != nil {
		panic(err) // it fails for sizes below one only
	}
	return c
}

// seen reports whether a hash was looked for in vain. The state is asked first, so one that comes
// up after all is known.
func (s *secondLooks) seen(hash []byte) bool { return s.vain.Contains(string(hash)) }

func (s *secondLooks) remember(hash []byte) { s.vain.Add(string(hash), struct{}{}) }

// allow takes one look of a source's budget, and of everybody's.
func (s *secondLooks) allow(source string) *Error {
	l, ok := s.sources.Get(source)
	if !ok {
		l = rate.NewLimiter(looksPerSourceSecond, looksBurst)
		if before, found, _ := s.sources.PeekOrAdd(source, l); found {
			l = before
		}
	}
	if l.Allow() && s.all.Allow() {
		return nil
	}
	return &Error{
		Code: codes.ResourceExhausted, Reason: ReasonRateLimit, Retry: time.Second,
		Message: "too many tokens that are not known come from " + source + ": wait a second. A token that was made a moment ago is known soon",
	}
}
