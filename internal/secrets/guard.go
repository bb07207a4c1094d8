package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
)

const (
	checkEvery = 30 * time.Second // between two looks of a leader at what is sealed
	noteEvery  = 5 * time.Second  // between two looks for Note
	shoutEvery = time.Minute      // while a leader leads without a key

	// handovers is how often in a row a peer gives the leadership away at once. With as many as
	// five peers, of which only one has the key, it has been the leader by then: whom a peer hands
	// over to varies.
	handovers = 4
	// After those, a peer leads: without a leader nothing at all would work. It tries again after
	// firstRest, then after twice that, and so on.
	firstRest = 10 * time.Minute
	maxRest   = 2 * time.Hour
)

// Guard is a leader task: a peer that cannot open what is sealed gives the leadership away, because
// runs that need a secret would fail under it. Where no peer has the key that would go round in
// circles, so it is bounded: see handovers. One Guard serves all leaderships of a process.
type Guard struct {
	state State
	keys  *Keyring
	log   *slog.Logger

	mu      sync.Mutex
	given   int // hand-overs since the last time that nothing was missing
	last    time.Time
	noted   time.Time
	missing []string // when it was noted
}

// NewGuard returns a Guard.
func NewGuard(state State, keys *Keyring, log *slog.Logger) *Guard {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Guard{state: state, keys: keys, log: log}
}

// Missing returns the ids of keys that something is sealed under and that this peer does not have,
// sorted.
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

// Run implements cluster.LeaderTask.
func (g *Guard) Run(ctx context.Context, _ cluster.Term) error {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	var shouted time.Time
	for {
		changed := g.keys.Changed()
		missing := g.Missing()
		switch {
		case len(missing) == 0:
			if g.recovered() {
				g.log.Info("this peer has all secrets keys again", "file", g.keys.File())
			}
			shouted = time.Time{}
		case g.giveAway(time.Now()):
			return fmt.Errorf("%s: another peer should lead", g.words(missing))
		case time.Since(shouted) >= shoutEvery:
			shouted = time.Now()
			g.log.Error("LEADING WITHOUT A SECRETS KEY: no other peer that has led since has it either. Runs that need such a secret fail until the key is back",
				"missing", missing, "file", g.keys.File(), "what", g.words(missing))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-t.C:
		}
	}
}

// words reports what is missing, and where.
func (g *Guard) words(missing []string) string {
	file := g.keys.File()
	if file == "" {
		return fmt.Sprintf("secrets are sealed under key %s, but this peer has no --secrets-key-file", strings.Join(missing, ", "))
	}
	return fmt.Sprintf("secrets are sealed under key %s, which is not in %s", strings.Join(missing, ", "), file)
}

// giveAway reports whether to give the leadership away once more, and counts that.
func (g *Guard) giveAway(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.given - handovers; n >= 0 {
		if now.Sub(g.last) < min(firstRest<<min(n, 10), maxRest) {
			return false
		}
	}
	g.given++
	g.last = now
	return true
}

// recovered forgets past hand-overs, and says whether there were any.
func (g *Guard) recovered() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	had := g.given > 0
	g.given, g.last = 0, time.Time{}
	return had
}

// Note reports what this peer lacks, for its status, or nothing. It may be a few seconds old.
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
