// Package connlimit limits how many connections callers hold to a peer, by address and in all, so
// that they cannot use up its files (docs/security.md). An idle connection makes room for a new
// one. Callers with a certificate of the cluster are exempt, and have a reserve in which they can
// prove it. A connection with too many resets of streams ends.
//
// It owns the counts. It must not know protocols or callers beyond that.
package connlimit

import (
	"cmp"
	"container/list"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config has the limits. The listeners of a Limiter share them.
type Config struct {
	// Total is the number of connections of callers that have proved nothing, PerAddress that of
	// one address: of IPv6, of one /64.
	Total, PerAddress int
	// Reserve is the number of further connections, which are closed unless their callers show a
	// certificate within VerifyTime (default 5 s).
	Reserve    int
	VerifyTime time.Duration
	// Verified is the number of exempt connections. More of them count as the others.
	Verified int
	// Idle is the time without traffic after which a connection may be closed for another one
	// (default 10 s).
	Idle time.Duration
	// Port is a label of the metrics, if a process has several Limiters: "api" or "peers".
	Port       string
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// ForFiles returns the limits of the ports of callers, of a process that may open a number of
// files. With those of ForPeers, a fifth of them stays for its other work.
func ForFiles(files int) Config {
	return Config{Total: files / 2, PerAddress: max(16, files/8), Reserve: max(8, files/16),
		Verified: files / 8, Port: "api"}
}

// ForPeers returns the limits of the ports where only peers connect, Raft and gossip. A flood of
// the other ports takes nothing from these.
func ForPeers(files int) Config {
	return Config{Total: max(16, files/32), PerAddress: max(8, files/128), Reserve: max(8, files/64),
		Verified: max(64, files/16), Port: "peers"}
}

const (
	search  = 64               // connections that are looked at to find an idle one
	logPace = 30 * time.Second // between two lines in the log
)

// Limiter counts the connections of its listeners.
type Limiter struct {
	cfg Config

	mu         sync.Mutex
	all        *list.List // of *conn: plain connections, roughly by their last traffic
	byAddress  map[string]*list.List
	unverified *list.List // of *conn: in the reserve, the oldest first
	verified   int
	logged     time.Time

	closed *prometheus.CounterVec
}

// New returns a Limiter.
func New(cfg Config) *Limiter {
	cfg.Idle = cmp.Or(cfg.Idle, 10*time.Second)
	cfg.VerifyTime = cmp.Or(cfg.VerifyTime, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	labels := prometheus.Labels{"port": cmp.Or(cfg.Port, "api")}
	l := &Limiter{
		cfg: cfg, all: list.New(), byAddress: map[string]*list.List{}, unverified: list.New(),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_connections_closed_total",
			Help: "Connections closed because callers hold too many or misuse them, by reason: " +
				"idle, without a certificate, or resets of streams.",
			ConstLabels: labels,
		}, []string{"reason"}),
	}
	if cfg.Registerer != nil {
		open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_connections", Help: "Open connections of callers that have shown no certificate.",
			ConstLabels: labels,
		}, func() float64 { return float64(l.plain()) })
		cfg.Registerer.MustRegister(l.closed, open)
	}
	return l
}

func (l *Limiter) plain() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Len()
}

// admit counts a new connection, and closes another one if there are too many.
func (l *Limiter) admit(c *conn) {
	l.mu.Lock()
	victim, reason := l.place(c)
	quiet := victim == nil || time.Since(l.logged) < logPace
	if !quiet {
		l.logged = time.Now()
	}
	l.mu.Unlock()
	if victim == nil {
		return
	}
	l.closed.WithLabelValues(reason).Inc()
	if !quiet {
		l.cfg.Logger.Warn("too many connections, closing one", "from", victim.RemoteAddr(), "reason", reason,
			"limit", l.cfg.Total, "limit_per_address", l.cfg.PerAddress)
	}
	_ = victim.Close()
}

// place adds a connection to the lists, and returns the one to close for it.
func (l *Limiter) place(c *conn) (victim *conn, reason string) {
	mine := l.byAddress[c.address]
	switch {
	case mine != nil && mine.Len() >= l.cfg.PerAddress:
		victim = l.idle(mine)
	case l.all.Len() >= l.cfg.Total:
		victim = l.idle(l.all)
	default:
		l.join(c)
		return nil, ""
	}
	if victim != nil {
		l.leave(victim)
		l.join(c)
		return victim, "idle"
	}
	if l.unverified.Len() >= l.cfg.Reserve {
		if e := l.unverified.Front(); e != nil {
			victim, _ = e.Value.(*conn)
			l.leave(victim)
		}
	}
	c.inReserve = l.unverified.PushBack(c)
	c.verifyTimer = time.AfterFunc(l.cfg.VerifyTime, func() {
		if l.expel(c) {
			l.closed.WithLabelValues("no certificate").Inc()
			_ = c.Close()
		}
	})
	return victim, "no certificate"
}

// expel reports whether a connection is still in the reserve, and removes it.
func (l *Limiter) expel(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.inReserve == nil {
		return false
	}
	l.leave(c)
	return true
}

// join adds a plain connection.
func (l *Limiter) join(c *conn) {
	mine := l.byAddress[c.address]
	if mine == nil {
		mine = list.New()
		l.byAddress[c.address] = mine
	}
	c.inAll, c.inAddress = l.all.PushBack(c), mine.PushBack(c)
}

// leave removes a connection from the lists.
func (l *Limiter) leave(c *conn) {
	if c.verifyTimer != nil {
		c.verifyTimer.Stop()
	}
	if c.inReserve != nil {
		l.unverified.Remove(c.inReserve)
	}
	if c.inAll != nil {
		l.all.Remove(c.inAll)
		mine := l.byAddress[c.address]
		if mine.Remove(c.inAddress); mine.Len() == 0 {
			delete(l.byAddress, c.address)
		}
	}
	if c.exempt {
		l.verified--
	}
	c.inReserve, c.inAll, c.inAddress, c.exempt = nil, nil, nil, false
}

// idle returns a connection of a list without traffic for a while, or nil if none is found soon.
func (l *Limiter) idle(of *list.List) *conn {
	now := time.Now().UnixNano()
	for range min(search, of.Len()) {
		e := of.Front()
		c, _ := e.Value.(*conn)
		if now-c.last.Load() >= l.cfg.Idle.Nanoseconds() {
			return c
		}
		of.MoveToBack(e)
	}
	return nil
}

// verify makes a connection exempt.
func (l *Limiter) verify(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone || c.exempt || l.verified >= l.cfg.Verified && c.inReserve == nil {
		return
	}
	l.leave(c)
	c.exempt = true
	l.verified++
}

func (l *Limiter) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.gone = true
	l.leave(c)
}

// addressOf returns the key of an address: an IPv4 address, or the /64 of an IPv6 address, because
// a host can choose any address within it.
func addressOf(at net.Addr) string {
	ap, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return at.String()
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
