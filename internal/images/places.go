package images

import (
	"fmt"
	"sync"
)

// places counts the downloads under way, in all and of each address: one address must not hold the
// places of all others.
type places struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by address, without those that have none
}

// take takes a place for a download of an address, unless there is none left.
func (p *places) take(from string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[from] >= maxOfOne:
		return fmt.Errorf("this peer serves %d downloads at once to one address: try again, or another peer", maxOfOne)
	case p.all >= maxDownloads:
		return fmt.Errorf("this peer serves %d downloads at once: try again, or another peer", maxDownloads)
	}
	p.all++
	p.of[from]++
	return nil
}

// leave ends what take began.
func (p *places) leave(from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[from]--; p.of[from] == 0 {
		delete(p.of, from)
	}
}
