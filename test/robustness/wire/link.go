package wire

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Link is the path from one host to another, in that direction only. The zero Link is
// perfect.
type Link struct {
	Cut    bool          // nothing arrives, without an error
	Loss   float64       // the share of lost packets, 0 to 1
	Delay  time.Duration // of each packet
	Rate   int           // bytes per second; 0: unlimited
	Reject bool          // new TCP connections are refused, as by a firewall; open ones continue
}

// links is the state of every link, by host numbers.
type links struct {
	mu   sync.Mutex
	rng  *rand.Rand
	of   [][]Link
	busy [][]time.Time // until when a link with a Rate is sending
	lost uint64
}

func newLinks(hosts int, rng *rand.Rand) *links {
	l := &links{rng: rng, of: make([][]Link, hosts), busy: make([][]time.Time, hosts)}
	for i := range l.of {
		l.of[i], l.busy[i] = make([]Link, hosts), make([]time.Time, hosts)
	}
	return l
}

// fate is the outcome of a packet.
type fate int

const (
	arrives fate = iota
	vanishes
	refused
)

// pass returns the fate of a packet, and its delay if it arrives.
func (l *links) pass(from, to int, p []byte) (time.Duration, fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.of[from][to]
	if link.Cut || link.Loss > 0 && l.rng.Float64() < link.Loss {
		l.lost++
		return 0, vanishes
	}
	if link.Reject && isSYN(p) {
		l.lost++
		return 0, refused
	}
	if link.Rate == 0 {
		return link.Delay, arrives
	}
	now := time.Now()
	if l.busy[from][to].Before(now) {
		l.busy[from][to] = now
	}
	l.busy[from][to] = l.busy[from][to].Add(time.Duration(len(p)) * time.Second / time.Duration(link.Rate))
	return l.busy[from][to].Sub(now) + link.Delay, arrives
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
