package secrets

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
)

const (
	checkEvery = 30 * time.Second // between two checks by the leader
	noteEvery  = 5 * time.Second  // minimum time between two checks for Note
	logEvery   = time.Minute      // between two errors in the log while leading without a key

	// handovers is how often in a row a peer hands over the leadership immediately. With up
	// to five peers, of which only one has the key, that one has been the leader by then,
	// because hand-over targets vary.
	handovers = 4
	// After that, the peer keeps the leadership, because without a leader nothing works. It
	// hands over again after firstRest, then after twice that, and so on.
	firstRest = 10 * time.Minute
	maxRest   = 2 * time.Hour
)

// Guard is a leader task. A peer that cannot decrypt all sealed values hands over the
// leadership, because runs that need a secret would fail. If no peer has the key,
// hand-overs would never end, so they are limited: see handovers. One Guard serves all
// leaderships of a process.
type Guard struct {
	state State
	keys  *Keyring
	log   *slog.Logger

	mu         sync.Mutex
	handedOver int // hand-overs since no key was last missing
	last       time.Time
	noted      time.Time
	missing    []string // as of noted
}

// NewGuard returns a Guard. log may be nil.
func NewGuard(state State, keys *Keyring, log *slog.Logger) *Guard {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Guard{state: state, keys: keys, log: log}
}

// Missing returns the sorted ids of keys that are in use in the state but that this peer
// does not have.
func (g *Guard) Missing() []string {
	v := g.state.View()
	seen := map[string]bool{}
	var missing []string
	check := func(id string) {
		if !seen[id] && !g.keys.Has(id) {
			missing = append(missing, id)
		}
		seen[id] = true
	}
	for s := range v.Secrets("") {
		check(s.GetSealed().GetKeyId())
	}
	for _, k := range v.SigningKeys() {
		check(k.GetSealed().GetKeyId())
	}
	slices.Sort(missing)
	return missing
}

// Run implements leader.Task.
func (g *Guard) Run(ctx context.Context, _ leader.Term) error {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	var logged time.Time
	for {
		changed := g.keys.Changed()
		missing := g.Missing()
		switch {
		case len(missing) == 0:
			if g.recovered() {
				g.log.Info("this peer has all secrets keys again", "file", g.keys.File())
			}
			logged = time.Time{}
		case g.shouldHandOver(time.Now()):
			return fmt.Errorf("%s: another peer should lead", g.words(missing))
		case time.Since(logged) >= logEvery:
			logged = time.Now()
			g.log.Error("leading without a secrets key: no recent leader has it; "+
				"runs that need such a secret fail until the key is back", "error", g.words(missing))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-t.C:
		}
	}
}

// words returns a description of the missing keys.
func (g *Guard) words(missing []string) string {
	ids, file := strings.Join(missing, ", "), g.keys.File()
	if file == "" {
		return fmt.Sprintf("secrets are sealed under key %s, but this peer has no --secrets-key-file", ids)
	}
	return fmt.Sprintf("secrets are sealed under key %s, which is not in %s", ids, file)
}

// shouldHandOver reports whether to hand over the leadership now. If so, it counts that.
func (g *Guard) shouldHandOver(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.handedOver - handovers; n >= 0 {
		if now.Sub(g.last) < min(firstRest<<min(n, 10), maxRest) {
			return false
		}
	}
	g.handedOver++
	g.last = now
	return true
}

// recovered resets the count of hand-overs and reports whether there were any.
func (g *Guard) recovered() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	had := g.handedOver > 0
	g.handedOver, g.last = 0, time.Time{}
	return had
}

// Note returns a description of missing keys for the peer's status, or "". It may be a few
// seconds old.
func (g *Guard) Note() string {
	g.mu.Lock()
	fresh, missing := !g.noted.IsZero() && time.Since(g.noted) < noteEvery, g.missing
	g.mu.Unlock()
	if !fresh {
		missing = g.Missing()
		g.mu.Lock()
		g.missing, g.noted = missing, time.Now()
		g.mu.Unlock()
	}
	if len(missing) == 0 {
		return ""
	}
	return g.words(missing)
}
