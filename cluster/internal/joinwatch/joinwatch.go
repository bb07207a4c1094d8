// Package joinwatch finds out why a peer knows no leader: peers that do not answer, addresses that
// cannot be joined, keys and certificates that do not fit. It logs the reason and keeps it for
// errors and for the status. It must not change anything: it only asks.
package joinwatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	every    = time.Second     // between two polls
	firstLog = 4 * time.Second // without a leader until the first line in the log
	nextLogs = 30 * time.Second
	askTime  = 700 * time.Millisecond // for the answers of peers
)

// ErrLeads is the answer of a peer that leads, although the asking peer knows no leader.
var ErrLeads = errors.New("leads")

// Cluster is the cluster as this peer sees it.
type Cluster interface {
	// Standing returns the state of the cluster as this peer knows it.
	Standing() Standing
	// Ask calls a peer. It returns ErrLeads if the peer leads, and another error if it does not
	// answer.
	Ask(ctx context.Context, id string) error
	// FailedJoins returns the error of each gossip address that cannot be joined.
	FailedJoins() map[string]error
}

// Standing is the state of a cluster as a peer knows it.
type Standing struct {
	Self string
	// Leader means that a leader is known.
	Leader bool
	// Voters are the voters of the Raft configuration. There are none without a cluster.
	Voters []string
	// Seen are the peers that are alive in gossip.
	Seen []string
	// Forming is the reason why there is no cluster yet, if there is none.
	Forming string
	// Unfit is the reason why this peer may not vote, if its data directory is old.
	Unfit string
	// For is how long no leader has been known; zero if none was ever known.
	For time.Duration
}

// Watch keeps the reason why a peer knows no leader.
type Watch struct {
	cluster Cluster
	probe   func(ctx context.Context, addr string) service
	log     *slog.Logger
	reason  atomic.Pointer[string]
	probed  sync.Map // address → service, so that each is probed once: servers log a failed handshake
}

// New returns a watch, which works in Run.
func New(c Cluster, log *slog.Logger) *Watch { return &Watch{cluster: c, probe: probe, log: log} }

// Reason returns the reason that the last poll has found, or the one that gossip alone suggests.
func (w *Watch) Reason() string {
	if r := w.reason.Load(); r != nil {
		return *r
	}
	return explain(findings{Standing: w.cluster.Standing()})
}

// Run polls the peers every second while no leader is known, until ctx ends. It logs the reason
// after 4 s and then every 30 s.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var since, logged time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		st := w.cluster.Standing()
		if st.Leader {
			w.reason.Store(nil)
			w.probed.Clear()
			since, logged = time.Time{}, time.Time{}
			continue
		}
		now := time.Now()
		if since.IsZero() {
			since = now.Add(-every) // it may have begun right after the last tick
		}
		reason := explain(w.poll(ctx, st))
		w.reason.Store(&reason)
		if ctx.Err() == nil && now.Sub(since) >= firstLog && (logged.IsZero() || now.Sub(logged) >= nextLogs) {
			w.log.Warn("this peer knows no leader", "for", now.Sub(since).Round(every), "reason", reason)
			logged = now
		}
	}
}

// poll asks all peers at once, and probes the addresses whose answer was not understood.
func (w *Watch) poll(ctx context.Context, st Standing) findings {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f := findings{Standing: st, asked: true, peers: map[string]string{}, addrs: map[string]string{}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for id := range others(st) {
		wg.Go(func() {
			err := w.cluster.Ask(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrLeads) {
				f.leader = id
			} else if err != nil {
				f.peers[id] = Call(err)
			}
		})
	}
	for addr, err := range w.cluster.FailedJoins() {
		wg.Go(func() {
			cause := w.address(ctx, addr, err)
			mu.Lock()
			defer mu.Unlock()
			f.addrs[addr] = cause
		})
	}
	wg.Wait()
	return f
}

// service returns the service at an address that does not understand gossip.
func (w *Watch) service(ctx context.Context, addr string) service {
	if s, ok := w.probed.Load(addr); ok {
		return s.(service)
	}
	s := w.probe(ctx, addr)
	if s != unknownService {
		w.probed.Store(addr, s)
	}
	return s
}

// others returns all other peers that are known.
func others(st Standing) map[string]bool {
	ids := map[string]bool{}
	for _, list := range [][]string{st.Voters, st.Seen} {
		for _, id := range list {
			if id != st.Self {
				ids[id] = true
			}
		}
	}
	return ids
}
