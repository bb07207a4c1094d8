package connlimit

import (
	"container/list"
	"io"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// OfProcess returns a Limiter with the limits that a function returns for the number of files that
// this process may open.
func OfProcess(limits func(files int) Config, log *slog.Logger, reg prometheus.Registerer) *Limiter {
	files := 1024 // a common default
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		files = int(min(uint64(limit.Cur), 1<<24)) //nolint:unconvert // it fits; the type differs by system
	}
	cfg := limits(max(files, 64))
	cfg.Logger, cfg.Registerer = log, reg
	return New(cfg)
}

// OfPeers returns the limit of the ports where peers connect. Without TLS there is none: nobody
// proves to be a peer, and all peers are on this host.
func OfPeers(tls bool, log *slog.Logger, reg prometheus.Registerer) func(net.Listener) net.Listener {
	if !tls {
		return nil
	}
	return OfProcess(ForPeers, log, reg).Listen
}

// Listen returns a listener whose connections are limited; nil for nil. Use it below TLS: package
// peertls reports the certificates that it has verified.
func (l *Limiter) Listen(ln net.Listener) net.Listener {
	if ln == nil {
		return nil
	}
	return &listener{ln, l}
}

type listener struct {
	net.Listener
	limit *Limiter
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	counted := &conn{Conn: c, limit: l.limit, address: addressOf(c.RemoteAddr())}
	counted.last.Store(time.Now().UnixNano())
	l.limit.admit(counted)
	return counted, nil
}

// conn is a counted connection. The Limiter's mutex protects its places.
type conn struct {
	net.Conn
	limit   *Limiter
	address string
	last    atomic.Int64 // when there was traffic

	inAll, inAddress, inReserve *list.Element
	verifyTimer                 *time.Timer
	exempt, gone                bool
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.last.Store(time.Now().UnixNano())
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.last.Store(time.Now().UnixNano())
	return n, err
}

// chunk is how much of a file is sent before it counts as traffic.
const chunk = 4 << 20

// ReadFrom implements io.ReaderFrom, so that the kernel sends files.
func (c *conn) ReadFrom(r io.Reader) (total int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	left := int64(math.MaxInt64)
	if part, ok := r.(*io.LimitedReader); ok {
		r, left = part.R, part.N
		defer func() { part.N -= total }()
	}
	for left > 0 {
		most := min(left, chunk)
		n, err := to.ReadFrom(&io.LimitedReader{R: r, N: most})
		c.last.Store(time.Now().UnixNano())
		total, left = total+n, left-n
		if err != nil || n < most {
			return total, err
		}
	}
	return total, nil
}

// Verified reports that the other end has a certificate of the cluster. Package peertls calls it.
func (c *conn) Verified() { c.limit.verify(c) }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.limit.forget(c)
	return c.Conn.Close()
}
