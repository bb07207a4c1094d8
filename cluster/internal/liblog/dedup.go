package liblog

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// dedupWindow is how long equal lines about the same peer are not logged again.
	dedupWindow = 30 * time.Second
	// dedupLimit bounds the number of remembered lines.
	dedupLimit = 256
)

// logDedup limits repeated log lines of Raft, which logs several lines a second about each
// peer that is down. The first line is logged unchanged. Then one line per dedupWindow is
// logged with the number of suppressed lines. The others are logged at debug level.
type logDedup struct {
	mu   sync.Mutex
	seen map[string]*dedupEntry
}

type dedupEntry struct {
	loggedAt   time.Time // logged last
	suppressed int       // suppressed since then
}

// check returns the level for a line, and how many equal lines were suppressed before it.
func (r *logDedup) check(l slog.Level, key string, now time.Time) (level slog.Level, suppressed int) {
	if l < slog.LevelWarn {
		return l, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.seen[key]; ok {
		if now.Sub(s.loggedAt) < dedupWindow {
			s.suppressed++
			return slog.LevelDebug, 0
		}
		suppressed = s.suppressed
		s.loggedAt, s.suppressed = now, 0
		return l, suppressed
	}
	if r.seen == nil || len(r.seen) >= dedupLimit {
		r.seen = map[string]*dedupEntry{}
	}
	r.seen[key] = &dedupEntry{loggedAt: now}
	return l, 0
}
