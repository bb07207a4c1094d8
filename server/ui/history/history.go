package history

import (
	"context"
	"errors"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Load is how the leader is asked (*cluster.Node).
type Load interface {
	// LeaderLoad returns who leads, and what it has done since it started. An error: no leader is
	// known, or it does not answer.
	LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error)
}

// Config says how often and for how long.
type Config struct {
	Every time.Duration    // time between two samples. Default 5 s
	Keep  int              // samples that are kept. Default 720, an hour of them
	Now   func() time.Time // default time.Now
}

// Sample is what was seen at one moment.
type Sample struct {
	At     time.Time
	Leader string  // who leads; empty: nobody who answers
	Leases uint64  // live ones that the leader keeps
	Signs  float64 // heartbeats a second that it takes
	// Since the sample before, by the same leader. Without one they are not known.
	Known    bool
	Commands float64       // a second
	Half     time.Duration // half of the commands took no longer; 0: there was none
	Most     time.Duration // 99 in 100 took no longer
}

// History is the last hour.
type History struct {
	cfg  Config
	load Load

	mu   sync.Mutex
	ring []Sample
	n    uint64 // samples that were ever taken

	last   *holdfastv1.PeerLoad // Run's own: what the leader said the last time
	before Sample
}

// New returns a history of nothing yet.
func New(cfg Config, l Load) *History {
	if cfg.Every <= 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Keep <= 0 {
		cfg.Keep = 720
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &History{cfg: cfg, load: l}
}

// Run takes samples until ctx ends, which is no error.
func (h *History) Run(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.Every)
	defer tick.Stop()
	for {
		h.take(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// take adds a sample. A leader that does not answer is one too: a gap is what people look for.
func (h *History) take(ctx context.Context) {
	leader, load, err := h.load.LeaderLoad(ctx)
	if errors.Is(err, context.Canceled) {
		return
	}
	s := Sample{At: h.cfg.Now()}
	if err == nil {
		s.Leader, s.Leases, s.Signs = leader, load.GetLeases(), load.GetLeaseRate()
		s.since(h.before, h.last, load)
	}
	h.before, h.last = s, load
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < h.cfg.Keep {
		h.ring = append(h.ring, s)
	} else {
		h.ring[h.n%uint64(h.cfg.Keep)] = s
	}
	h.n++
}

// since fills in what has happened between two samples of a leader that has not started anew in
// between.
func (s *Sample) since(before Sample, was, now *holdfastv1.PeerLoad) {
	d := s.At.Sub(before.At)
	if was == nil || now == nil || before.Leader != s.Leader || d <= 0 || now.GetCommands() < was.GetCommands() {
		return
	}
	s.Known, s.Commands = true, float64(now.GetCommands()-was.GetCommands())/d.Seconds()
	counts := make([]uint64, 0, len(now.GetCommits()))
	for i, n := range now.GetCommits() {
		if i < len(was.GetCommits()) {
			n -= min(n, was.GetCommits()[i]) // they are not read all at once
		}
		counts = append(counts, n)
	}
	s.Half, s.Most = quantile(counts, 50), quantile(counts, 99)
}

// Samples are those that are kept, the oldest first.
func (h *History) Samples() []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < h.cfg.Keep {
		return append([]Sample(nil), h.ring...)
	}
	at := h.n % uint64(h.cfg.Keep)
	return append(append(make([]Sample, 0, len(h.ring)), h.ring[at:]...), h.ring[:at]...)
}

// Taken is how many samples were ever taken: it tells whether there is a new one.
func (h *History) Taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}
