package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

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
