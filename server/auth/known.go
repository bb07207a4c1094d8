package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxKnown bounds the tokens that are remembered: one more, and they are all looked up anew.
const maxKnown = 65536

// known are the good tokens that were looked up, by their hashes. When any token changes all of
// them are forgotten: what the next state says of one counts at once.
type known struct {
	mu      sync.RWMutex
	in      any // Records.TokensMark
	callers map[[sha256.Size]byte]knownCaller
}

type knownCaller struct {
	identity *holdfastv1.Identity // nobody changes it: many calls share it
	seen     seen
}

// get returns whom a token stands for, if it was looked up among the tokens of that mark and has
// not expired since.
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
