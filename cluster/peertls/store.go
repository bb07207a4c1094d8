package peertls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says which files a peer's certificates are in, and whose they must be. A file may be named
// "credential:NAME": see package keyfile.
type Config struct {
	// CA holds the certificates of one or more CAs, PEM: more than one while a CA is being
	// replaced.
	CA string
	// Cert is the peer's certificate, with those between it and its CA after it, PEM. Key is its
	// key; nobody else may read that.
	Cert, Key string
	// PeerID is the peer that the certificate must be made for.
	PeerID string
	// Interval is the time between two looks at the files; default 5 s. A handshake looks too, once
	// a second at most.
	Interval time.Duration
	// Logger gets what happens to the files; default none.
	Logger *slog.Logger
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer
}

const (
	defaultInterval = 5 * time.Second
	lookAtMost      = time.Second         // between two looks that handshakes ask for
	warnAhead       = 14 * 24 * time.Hour // of a certificate's end
	warnAgain       = 24 * time.Hour
)

// Store holds the certificates in use. It is safe for concurrent use.
type Store struct {
	cfg     Config
	log     *slog.Logger
	cluster string
	set     atomic.Pointer[set]
	broken  atomic.Bool // the files cannot be used as they are

	mu     sync.Mutex
	looked time.Time            // when the files were read last
	seen   raw                  // what was in them
	why    string               // what is wrong with seen; empty if it is in use
	told   bool                 // that has been logged
	warned map[string]time.Time // file → when its end was warned of last
}

// Open reads the files. It fails when they do not fit together, or are not of that peer.
func Open(cfg Config) (*Store, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := CheckName("peer id", cfg.PeerID); err != nil {
		return nil, fmt.Errorf("open certificates: %w", err)
	}
	r, err := readFiles(&cfg)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	first, err := parse(&cfg, r, now)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: cfg.Logger, cluster: first.cluster, looked: now, seen: r, warned: map[string]time.Time{}}
	s.set.Store(first)
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{s}); err != nil {
			return nil, fmt.Errorf("register certificate metrics: %w", err)
		}
	}
	return s, nil
}

// Cluster returns the name of the cluster in the peer's own certificate. It never changes.
func (s *Store) Cluster() string { return s.cluster }

// Run looks at the files until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(s.cfg.Interval)
	defer t.Stop()
	for {
		s.look(true)
		s.warn(time.Now())
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// current returns the set to use for a handshake that begins now.
func (s *Store) current() *set {
	s.look(false)
	return s.set.Load()
}

// look reads the files and takes a new set into use. A set that cannot be used leaves the last one
// in place. It is told of when it is still there at the next regular look: files are replaced one
// after the other.
func (s *Store) look(regular bool) {
	if !regular && !s.mu.TryLock() {
		return // somebody is at it
	} else if regular {
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	now := time.Now()
	if !regular && now.Sub(s.looked) < lookAtMost {
		return
	}
	s.looked = now
	r, err := readFiles(&s.cfg)
	same := err == nil && r.same(s.seen)
	if same && s.why == "" {
		return
	}
	var next *set
	if err == nil {
		s.seen = r
		next, err = parse(&s.cfg, r, now)
	}
	if err == nil && next.cluster != s.cluster {
		err = fmt.Errorf("read certificate %s: it is of cluster %s, but this peer is of cluster %s", s.cfg.Cert, next.cluster, s.cluster)
	}
	if err != nil {
		s.keep(err, regular, same || s.why == err.Error())
		return
	}
	s.why, s.told = "", false
	s.broken.Store(false)
	s.set.Store(next)
	s.log.Info("certificates reloaded", "cert", s.cfg.Cert, "serial", next.leaf.SerialNumber.Text(16), "not_after", next.leaf.NotAfter, "cas", len(next.cas))
}

// keep leaves the last good set in use. again says that what is wrong has been seen before.
func (s *Store) keep(err error, regular, again bool) {
	s.why = err.Error()
	s.told = s.told && again
	if !regular || !again || s.told {
		return
	}
	s.told = true
	s.broken.Store(true)
	s.log.Error("the certificate files cannot be used: the last good ones stay in use until they are mended", "error", err)
}

// warn tells once a day of certificates that are about to end.
func (s *Store) warn(now time.Time) {
	m := s.set.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range m.ends(&s.cfg) {
		left := c.cert.NotAfter.Sub(now)
		if left > warnAhead || now.Sub(s.warned[c.key()]) < warnAgain {
			continue
		}
		s.warned[c.key()] = now
		s.log.Warn("certificate ends soon: make a new one (holdfast tls cert create, or tls ca create) and put it in its place, no restart is needed",
			"file", c.file, "subject", c.cert.Subject.String(), "not_after", c.cert.NotAfter, "days_left", int(left/(24*time.Hour)))
	}
}

// ErrNotPeer is in the errors of handshakes with somebody who is no peer of this cluster.
var ErrNotPeer = errors.New("not a peer of this cluster")
