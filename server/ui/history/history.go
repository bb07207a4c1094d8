package history

import (
	"context"
	"errors"
	"sync"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Load reads the load of the leader (*cluster.Node).
type Load interface {
	// LeaderLoad returns the leader's id and its counters since its start. It returns an
	// error if no leader is known or it does not answer.
	LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error)
}

// Config configures a History.
type Config struct {
	Every time.Duration    // sampling interval; default 5 s
	Keep  int              // number of stored samples; default 720, an hour
	Now   func() time.Time // default time.Now
}

// Sample is the load at one moment.
type Sample struct {
	At     time.Time
	Leader string  // empty if no leader answered
	Leases uint64  // live leases
	Signs  float64 // heartbeats per second
	// Known reports whether the fields below are set. They are relative to the previous
	// sample of the same leader.
	Known    bool
	Commands float64       // per second
	Half     time.Duration // p50 of the commit latency; 0 if there were no commands
	Most     time.Duration // p99 of the commit latency
}

// History is the load of the last hour.
type History struct {
	cfg  Config
	load Load

	mu   sync.Mutex
	ring []Sample
	n    uint64 // number of samples taken

	last   *holdfastv1.PeerLoad // used by Run only: the previous answer
	before Sample
}

// New returns an empty History.
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

// Run takes samples until ctx ends, and then returns nil.
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

// take adds a sample. If the leader does not answer, the sample records that, so that
// outages are visible.
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

// since sets the values relative to the previous sample, if the leader is the same and has
// not restarted.
func (s *Sample) since(before Sample, was, now *holdfastv1.PeerLoad) {
	d := s.At.Sub(before.At)
	if was == nil || now == nil || before.Leader != s.Leader || d <= 0 || now.GetCommands() < was.GetCommands() {
		return
	}
	s.Known, s.Commands = true, float64(now.GetCommands()-was.GetCommands())/d.Seconds()
	counts := make([]uint64, 0, len(now.GetCommits()))
	for i, n := range now.GetCommits() {
		if i < len(was.GetCommits()) {
			n -= min(n, was.GetCommits()[i]) // the counters are not read atomically
		}
		counts = append(counts, n)
	}
	s.Half, s.Most = quantile(counts, 50), quantile(counts, 99)
}

// Samples returns the stored samples, oldest first.
func (h *History) Samples() []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < h.cfg.Keep {
		return append([]Sample(nil), h.ring...)
	}
	at := h.n % uint64(h.cfg.Keep)
	return append(append(make([]Sample, 0, len(h.ring)), h.ring[at:]...), h.ring[:at]...)
}

// Taken returns the number of samples taken since the start. It changes with each new
// sample.
func (h *History) Taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}
