package history

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// Cluster is this peer in its cluster (*cluster.Peer).
type Cluster interface {
	// LeaderLoad returns the leader's id and its counters since its start. It returns an
	// error if no leader is known or it does not answer.
	LeaderLoad(ctx context.Context) (leader string, load *holdfastv1.PeerLoad, err error)
	// Votes returns an error while this peer has not caught up with the log.
	Votes() error
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
}

// Config configures a History.
type Config struct {
	Every  time.Duration // sampling interval; default 10 s
	Dir    string        // the data directory, which keeps the samples; "": they are lost with the process
	Logger *slog.Logger  // default: none
}

// The maximum number of providers with a series of their own. Others share one.
const maxProviders = 16

// The names of series. Those of machines end with a state, those of runs with a phase, and
// those of BMCs with a provider.
const (
	machines   = "machines."
	runs       = "runs."
	heartbeats = "heartbeats" // a second
	commands   = "commands"   // a second
	commitP50  = "commit.p50" // in seconds
	commitP99  = "commit.p99"
	bmcErrors  = "bmc."
	bmcOthers  = "bmc" // errors of the providers beyond maxProviders
	maxFixed   = 16    // series that are not of a provider
)

// resolutions returns the resolutions of all series: an hour, a day and two weeks.
func resolutions() []series.Resolution {
	return []series.Resolution{
		{Every: 10 * time.Second, Keep: 360},
		{Every: time.Minute, Keep: 1440},
		{Every: 10 * time.Minute, Keep: 2016},
	}
}

// maxLeaders bounds the number of changes of the leader.
const maxLeaders = 200

// Leader is a change of the leader.
type Leader struct {
	At time.Time
	ID string
}

// History has the samples of this peer.
type History struct {
	cfg     Config
	cluster Cluster
	start   time.Time // with a monotonic clock reading

	fixed *series.Store
	bmcs  *series.Store // by provider

	mu      sync.Mutex
	leaders []Leader
	taken   uint64

	before answer // the rest is used by Run only
	states *stateSampler
	failed bool // the last write of the file
}

// New returns an empty History.
func New(cfg Config, c Cluster, s State) *History {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	h := &History{
		cfg:     cfg,
		cluster: c,
		start:   time.Now(),
		fixed:   series.New(series.Config{Resolutions: resolutions(), MaxSeries: maxFixed}),
		bmcs:    series.New(series.Config{Resolutions: resolutions(), MaxSeries: maxProviders}),
	}
	h.states = &stateSampler{state: s, store: h.fixed, now: h.now}
	return h
}

// now returns the wall clock of the start plus the time since, so that a step of the wall
// clock moves no sample.
func (h *History) now() time.Time { return h.start.Add(time.Since(h.start)) }

// Run continues the samples of the file until ctx ends, and then returns nil.
func (h *History) Run(ctx context.Context) error {
	h.load()
	defer h.save()
	saveAt := h.now().Add(saveEvery)
	tick := time.NewTicker(h.cfg.Every)
	defer tick.Stop()
	for {
		h.take(ctx)
		if now := h.now(); !now.Before(saveAt) {
			h.save()
			saveAt = now.Add(saveEvery)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// take adds one sample of everything.
func (h *History) take(ctx context.Context) {
	h.takeLoad(ctx)
	if h.cluster.Votes() == nil { // until then the state is an old one
		h.states.take(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken++
}

// Taken returns the number of samples taken since the start. It changes with each new sample.
func (h *History) Taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}
