package images

import (
	"fmt"
	"sync"
)

// downloadLimit limits concurrent downloads, in total and per address, so that one address cannot
// use all of them.
type downloadLimit struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by address; addresses without downloads are removed
}

// acquire reserves a download for an address, or returns an error if the limit is reached.
func (p *downloadLimit) acquire(from string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[from] >= maxOfOne:
		return fmt.Errorf(
			"this peer already serves %d downloads to your address, the limit: retry, or use another peer", maxOfOne)
	case p.all >= maxDownloads:
		return fmt.Errorf("this peer already serves %d downloads, the limit: retry, or use another peer", maxDownloads)
	}
	p.all++
	p.of[from]++
	return nil
}

// release releases the reservation of acquire.
func (p *downloadLimit) release(from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[from]--; p.of[from] == 0 {
		delete(p.of, from)
	}
}
