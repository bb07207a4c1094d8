package peertls

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config names the files of a peer's certificates and the peer they must be issued to. A
// file may be named "credential:NAME": see package keyfile.
type Config struct {
	// CA holds the certificates of one or more CAs (PEM). There is more than one while a CA
	// is being replaced.
	CA string
	// Cert is the peer's certificate, followed by any intermediate certificates (PEM). Key
	// is its private key, which no other user may read.
	Cert, Key string
	// PeerCA holds the certificates of the CAs for peers only (PEM), which a CA of the cluster has
	// certified. Certificates of other such CAs are refused. If it is empty, all are accepted.
	PeerCA string
	// Renewed is the file in which the peer stores its renewed certificate and the key; empty if it
	// does not renew its certificate. Life is how long a renewed certificate lasts.
	Renewed string
	Life    time.Duration
	// PeerID is the peer that the certificate must name.
	PeerID string
	// Interval is the time between two checks of the files; default 5 s. Handshakes also
	// check them, at most once a second.
	Interval time.Duration
	// Now returns the time by which certificates begin and end; default time.Now.
	Now func() time.Time
	// Latest returns the latest time that it may be, if Now may be behind; default Now. The peer
	// presents no certificate that has ended by then if it has another one.
	Latest func() time.Time
	// Logger logs changes of the files; default none.
	Logger *slog.Logger
	// Registerer registers the metrics. If it is nil, none are registered.
	Registerer prometheus.Registerer
}

const (
	defaultInterval   = 5 * time.Second
	handshakeInterval = time.Second         // between two checks triggered by handshakes
	warnAhead         = 14 * 24 * time.Hour // before a certificate expires
	warnAgain         = 24 * time.Hour
)

// Store holds the certificates in use. It is safe for concurrent use.
type Store struct {
	cfg     Config
	log     *slog.Logger
	cluster string
	set     atomic.Pointer[set]
	broken  atomic.Bool // the files cannot be used as they are
	opened  time.Time

	mu      sync.Mutex
	checked time.Time            // when the files were last read
	seen    raw                  // their contents
	why     string               // why seen cannot be used; empty if it is in use
	logged  bool                 // why has been logged
	warned  map[string]time.Time // certificate → when its expiry was last logged
}

// Open reads the files. It returns an error if they do not match each other or the peer.
func Open(cfg Config) (*Store, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Latest == nil {
		cfg.Latest = cfg.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if err := CheckName("peer id", cfg.PeerID); err != nil {
		return nil, fmt.Errorf("open certificates: %w", err)
	}
	r, err := readFiles(&cfg)
	if err != nil {
		return nil, err
	}
	now := cfg.Now()
	first, err := parse(&cfg, r, now)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, log: cfg.Logger, cluster: first.cluster,
		checked: time.Now(), opened: time.Now(), seen: r, warned: map[string]time.Time{},
	}
	s.set.Store(first)
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{s}); err != nil {
			return nil, fmt.Errorf("register certificate metrics: %w", err)
		}
	}
	return s, nil
}

// End returns when a certificate ends, on the clock of this host.
func (s *Store) End(c *x509.Certificate) time.Time {
	return time.Now().Add(c.NotAfter.Sub(s.cfg.Now()))
}

// Cluster returns the cluster name in the peer's own certificate. It never changes.
func (s *Store) Cluster() string { return s.cluster }

// Run checks the files until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(s.cfg.Interval)
	defer t.Stop()
	for {
		s.refresh(true)
		s.warn(s.cfg.Now())
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// current returns the set to use for a handshake that begins now.
func (s *Store) current() *set {
	s.refresh(false)
	return s.set.Load()
}

// refresh reads the files and switches to a new set. If the new set cannot be used, the last
// one stays in use. The error is logged only if the next regular check finds it again,
// because files are replaced one by one.
func (s *Store) refresh(regular bool) {
	if regular {
		s.mu.Lock()
	} else if !s.mu.TryLock() {
		return // another goroutine is checking
	}
	defer s.mu.Unlock()
	if !regular && time.Since(s.checked) < handshakeInterval {
		return
	}
	s.checked = time.Now()
	now, used := s.cfg.Now(), s.set.Load()
	r, err := readFiles(&s.cfg)
	same := err == nil && r.same(s.seen)
	preferred := used.renewed || len(r.renewed) == 0
	if same && s.why == "" && preferred && now.Before(used.leaf.NotAfter) && s.cfg.Latest().Before(used.leaf.NotAfter) {
		return
	}
	var next *set
	if err == nil {
		s.seen = r
		next, err = parse(&s.cfg, r, now)
	}
	if err == nil && next.cluster != s.cluster {
		err = fmt.Errorf("read certificate %s: it is for cluster %s, but this peer belongs to cluster %s",
			s.cfg.Cert, next.cluster, s.cluster)
	}
	if err != nil {
		s.keep(err, regular, same || s.why == err.Error())
		return
	}
	had := s.why
	s.why, s.logged = "", false
	s.broken.Store(false)
	if same && had == "" && next.leaf.Equal(used.leaf) {
		return // there is no better certificate
	}
	s.set.Store(next)
	s.log.Info("certificates reloaded", "cert", s.cfg.Cert, "serial", next.leaf.SerialNumber.Text(16),
		"not_after", next.leaf.NotAfter, "cas", len(next.cas))
}

// keep leaves the last good set in use. again is true if the same error was seen before.
func (s *Store) keep(err error, regular, again bool) {
	s.why = err.Error()
	s.logged = s.logged && again
	if !regular || !again || s.logged {
		return
	}
	s.logged = true
	s.broken.Store(true)
	s.log.Error("certificate files not usable, keeping the last good ones until they are fixed", "error", err)
}

// warn logs once a day which certificates expire soon.
func (s *Store) warn(now time.Time) {
	m := s.set.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range m.ends(&s.cfg) {
		left := c.cert.NotAfter.Sub(now)
		if !endsSoon(c.cert, now, c.file == s.cfg.Renewed) || now.Sub(s.warned[c.key()]) < warnAgain {
			continue
		}
		s.warned[c.key()] = now
		s.log.Warn("certificate expires soon: "+
			"replace its file (holdfast tls cert create, or tls ca create), no restart needed",
			"file", c.file, "subject", c.cert.Subject.String(),
			"not_after", c.cert.NotAfter, "days_left", int(left/(24*time.Hour)))
	}
}

// endsSoon reports whether a certificate ends in two weeks, or in a fifth of its life if the peer
// renews it, because it lasts days then.
func endsSoon(c *x509.Certificate, now time.Time, renewed bool) bool {
	ahead := warnAhead
	if renewed {
		ahead = min(ahead, c.NotAfter.Sub(Issued(c))/5)
	}
	return c.NotAfter.Sub(now) <= ahead
}

// ErrNotPeer is in errors of handshakes with a caller that is not a peer of this cluster.
var ErrNotPeer = errors.New("not a peer of this cluster")
