package cluster

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// dedupWindow is how long equal lines about the same peer are not logged again.
	repeatsPause = 30 * time.Second
	// dedupLimit bounds the number of remembered lines.
	repeatsKept = 256
)

// logDedup limits repeated log lines of Raft, which logs several lines a second about each
// peer that is down. The first line is logged unchanged. Then one line per dedupWindow is
// logged with the number of suppressed lines. The others are logged at debug level.
type repeats struct {
	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	said time.Time // logged last
	held int // suppressed since then
}

// check returns the level for a line, and how many equal lines were suppressed before it.
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
