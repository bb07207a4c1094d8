package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxKnown bounds the tokens that are remembered: one more, and they are all looked up anew.
const maxKnown = 8192

// known are the good tokens that were looked up in one state, by their hashes. With the next state all of them are forgotten: what that says
// of a token counts at once.
type known struct {
	mu      sync.RWMutex
	in      Records
	callers map[[sha256.Size]byte]knownCaller
}

type knownCaller struct {
	identity *holdfastv1.Identity // nobody changes it: many calls share it
	seen     seen
}

// get gives whom a token stands for, if it was looked up in that state and has not expired since.
func (k *known) get(r Records, hash [sha256.Size]byte, now time.Time) (knownCaller, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.in != r {
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
