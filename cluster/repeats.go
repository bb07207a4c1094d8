package cluster

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// repeatsPause is how long the same trouble with the same peer is not logged again.
	repeatsPause = 30 * time.Second
	// repeatsKept bounds the troubles that are remembered.
	repeatsKept = 256
)

// repeats keeps Raft from saying the same thing all the time: it has several lines a second about
// each peer that is down. The first one is logged as it is, then one in repeatsPause with how many
// there were; the others at debug level.
type repeats struct {
	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	said time.Time
	held int // since then
}

// weigh returns the level of a line, and how many like it were held back before.
func (r *repeats) weigh(l slog.Level, key string, now time.Time) (level slog.Level, held int) {
	if l < slog.LevelWarn {
		return l, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.seen[key]; ok {
		if now.Sub(s.said) < repeatsPause {
			s.held++
			return slog.LevelDebug, 0
		}
		held = s.held
		s.said, s.held = now, 0
		return l, held
	}
	if r.seen == nil || len(r.seen) >= repeatsKept {
		r.seen = map[string]*repeat{}
	}
	r.seen[key] = &repeat{said: now}
	return l, 0
}
