package auth

import (
	"math"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The rate limits of callers (docs/security.md).
const (
	defaultRate  = 1000.0 // calls a second of a user
	maxBuckets   = 65536  // callers with a budget; the least recent one is dropped, and starts with a full one
	failedRate   = 10.0   // failed authentications a second of one address
	failedBurst  = 50
	publicRate   = 50.0 // public calls a second of one address
	publicBurst  = 200
	publicAll    = 1000.0 // public calls a second of all addresses
	publicAllMax = 2000   // burst
	burstSeconds = 2
	shareAgent   = 0.05 // of the calls of a user
	shareService = 0.2
	sharePool    = 10.0
	// Of the users that are limited to a pool, together. However many credentials a tenant has, it
	// leaves the peer to others.
	shareTenant = 4.0

	maxUserStreams   = 500  // open streams of a user
	maxAgentStreams  = 16   // of an agent
	maxSharedStreams = 5000 // of a token that many programs share
)

// limits is the rate limits of all callers. They are kept in memory, by each peer on its
// own.
type limits struct {
	perSecond     float64
	callers       *lru.Cache[string, *rate.Limiter]
	tenants       *lru.Cache[string, *rate.Limiter] // of the users of a pool
	sources       *lru.Cache[string, *rate.Limiter] // of failed authentications
	publicSources *lru.Cache[string, *rate.Limiter] // of public calls, by sourceKey
	total         *rate.Limiter                     // of public calls

	mu      sync.Mutex
	streams map[string]int // open ones, by principal
}

func newLimits(perSecond float64) *limits {
	return &limits{
		perSecond:     perSecond,
		callers:       newLRU[*rate.Limiter](maxBuckets),
		tenants:       newLRU[*rate.Limiter](maxBuckets),
		sources:       newLRU[*rate.Limiter](maxSources),
		publicSources: newLRU[*rate.Limiter](maxSources),
		total:         rate.NewLimiter(publicAll, publicAllMax),
		streams:       map[string]int{},
	}
}

// allow spends one call of a caller's budget. Peers have no limit, and neither has any
// caller if authentication is off.
func (l *limits) allow(id *holdfastv1.Identity) *Error {
	if l.perSecond < 0 || id.GetMethod() == MethodInsecure || isPeer(id) {
		return nil
	}
	perSecond := l.rate(id.GetRole())
	b := bucket(l.callers, id.GetPrincipal(), perSecond, burstSeconds*perSecond)
	if !b.Allow() {
		return tooMany(perSecond, "%s exceeds %g calls a second on this peer", id.GetPrincipal(), perSecond)
	}
	switch id.GetRole() {
	case holdfastv1.Role_AGENT, holdfastv1.Role_SERVICE, holdfastv1.Role_POOL_AGENT, holdfastv1.Role_ENROLLER:
		return nil // their number is that of the machines
	}
	perSecond = l.perSecond * shareTenant
	for _, pool := range id.GetPools() {
		if !bucket(l.tenants, pool, perSecond, burstSeconds*perSecond).Allow() {
			return tooMany(perSecond, "the callers of pool %s together exceed %g calls a second on this peer", pool, perSecond)
		}
	}
	return nil
}

// rate returns the number of calls a second for a role. A pool's token is shared by many
// agents. An enroller's is too, but each of them uses it once.
func (l *limits) rate(r holdfastv1.Role_Value) float64 {
	switch r {
	case holdfastv1.Role_AGENT, holdfastv1.Role_ENROLLER:
		return l.perSecond * shareAgent
	case holdfastv1.Role_SERVICE:
		return l.perSecond * shareService
	case holdfastv1.Role_POOL_AGENT:
		return l.perSecond * sharePool
	}
	return l.perSecond
}

// open counts a stream of a caller. The function ends it.
func (l *limits) open(id *holdfastv1.Identity) (end func(), refusal *Error) {
	if l.perSecond < 0 || id.GetMethod() == MethodInsecure || isPeer(id) {
		return func() {}, nil
	}
	most := maxUserStreams
	switch id.GetRole() {
	case holdfastv1.Role_AGENT, holdfastv1.Role_ENROLLER:
		most = maxAgentStreams
	case holdfastv1.Role_SERVICE, holdfastv1.Role_POOL_AGENT:
		most = maxSharedStreams
	}
	who := id.GetPrincipal()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[who] >= most {
		e := denied(ReasonStreamLimit, "%s has %d open streams on this peer, the most that a caller may have: close some",
			who, most)
		e.Code, e.Retry = codes.ResourceExhausted, time.Second
		return nil, e
	}
	l.streams[who]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[who]--; l.streams[who] <= 0 {
			delete(l.streams, who)
		}
	}, nil
}

// failed counts a failed authentication of an address. If there are too many, it returns
// that error instead of the cause. Calls with good credentials from the same address are
// still served.
func (l *limits) failed(source string) *Error {
	if l.perSecond < 0 || bucket(l.sources, source, failedRate, failedBurst).Allow() {
		return nil
	}
	return tooMany(failedRate, "too many calls without valid credentials from %s", source)
}

// exhausted reports whether an address has had too many failed authentications, without counting
// another one.
func (l *limits) exhausted(source string) bool {
	return l.perSecond >= 0 && bucket(l.sources, source, failedRate, failedBurst).Tokens() < 1
}

// public counts a call without credentials: first against the limit of its address, then
// against that of all addresses. So one address cannot use up the common limit.
func (l *limits) public(source string) *Error {
	switch {
	case l.perSecond < 0:
		return nil
	case !bucket(l.publicSources, sourceKey(source), publicRate, publicBurst).Allow():
		return tooMany(publicRate, "%s exceeds %g calls a second without credentials on this peer", source, publicRate)
	case !l.total.Allow():
		return tooMany(publicRate, "this peer gets more than %g calls a second without credentials", publicAll)
	}
	return nil
}

// sourceKey returns the key of an address in the limits: an IPv4 address itself, or the
// /64 of an IPv6 address, because a host can choose any address within it.
func sourceKey(source string) string {
	ip, err := netip.ParseAddr(source)
	if err != nil || ip.Unmap().Is4() {
		return source
	}
	p, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return source
	}
	return p.String()
}

// bucket returns the budget with a key, which a first use creates.
func bucket(c *lru.Cache[string, *rate.Limiter], key string, perSecond, burst float64) *rate.Limiter {
	if b, ok := c.Get(key); ok {
		return b
	}
	b := rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(burst))))
	if before, found, _ := c.PeekOrAdd(key, b); found {
		return before
	}
	return b
}

func tooMany(perSecond float64, format string, args ...any) *Error {
	e := denied(ReasonRateLimit, format+": slow down and retry", args...)
	e.Code, e.Retry = codes.ResourceExhausted, max(100*time.Millisecond, time.Duration(float64(time.Second)/perSecond))
	return e
}
