package peertls

import (
	"net"
	"sync"
	"time"
)

// Listen returns a listener that closes each connection when the client's certificate
// expires. Use it under every listener with a configuration of a Store: certificates are
// checked only in the handshake, and a connection may last for years.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Bounded(c), nil
}

// Bounded returns a connection that a handshake on top of it can limit in time.
func Bounded(c net.Conn) net.Conn { return &boundConn{Conn: c} }

// Bound closes a connection of Bounded or Listen at a given time if it is still open. The
// earliest time applies.
func Bound(c net.Conn, at time.Time) {
	if b, ok := c.(*boundConn); ok {
		b.endAt(at)
	}
}

// verified tells a limiter of connections below that the other end has a certificate of the
// cluster.
func verified(c net.Conn) {
	if b, ok := c.(*boundConn); ok {
		c = b.Conn
	}
	if v, ok := c.(interface{ Verified() }); ok {
		v.Verified()
	}
}

// boundConn is a connection that may have an end time.
type boundConn struct {
	net.Conn

	mu     sync.Mutex
	at     time.Time
	timer  *time.Timer
	closed bool
}

func (c *boundConn) endAt(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.timer != nil && !at.Before(c.at) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.at = at
	c.timer = time.AfterFunc(time.Until(at), func() { _ = c.Close() })
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}
