package liblog

import (
	"sync"
	"time"
)

const paceWindow = time.Minute

// Pace limits a line that anybody who reaches a port can cause to one a minute.
type Pace struct {
	mu   sync.Mutex
	at   time.Time // when the line was logged last
	held int       // since then
}

// Due reports whether the line may be logged now, and returns how many were not since the last
// one.
func (p *Pace) Due() (held int, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.at.IsZero() || now.Sub(p.at) >= paceWindow {
		held, p.at, p.held = p.held, now, 0
		return held, true
	}
	p.held++
	return 0, false
}
