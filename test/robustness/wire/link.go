package wire

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Link is the way from one host to another, in that direction only. The zero Link is a perfect one.
type Link struct {
	Cut   bool          // nothing arrives, and nobody is told
	Loss  float64       // the share of packets that do not arrive, 0 to 1
	Delay time.Duration // of each packet
}

// links is the state of every link, by host numbers.
type links struct {
	mu   sync.Mutex
	rng  *rand.Rand
	of   [][]Link
	lost uint64
}

func newLinks(hosts int, rng *rand.Rand) *links {
	l := &links{rng: rng, of: make([][]Link, hosts)}
	for i := range l.of {
		l.of[i] = make([]Link, hosts)
	}
	return l
}

// pass says whether a packet arrives, and after what time.
func (l *links) pass(from, to int) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.of[from][to]
	if link.Cut || link.Loss > 0 && l.rng.Float64() < link.Loss {
		l.lost++
		return 0, false
	}
	return link.Delay, true
}

func (l *links) set(from, to int, link Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[from][to] = link
}

func (l *links) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.of {
		clear(row)
	}
}

func (l *links) dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
