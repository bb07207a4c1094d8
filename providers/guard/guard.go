// Package guard lets effects leave over HTTP in time or not at all: it checks the not-after time of
// a request's context in the last line before the system call that sends it.
//
// It owns that check, and how long the kernel goes on trying to deliver what has left. It must not
// know what a request means, and it never sends one again.
package guard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/holdfast-metal/holdfast/providers"
)

// Transport returns a RoundTripper like t that sends nothing of a request once the not-after time
// of its context has passed: the error is then of class Late. It speaks HTTP/1.1, where a
// connection has one request at a time. A DialTLSContext of t is not used.
func Transport(t *http.Transport) http.RoundTripper {
	t = t.Clone()
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		bound(c)
		return &conn{Conn: c}, nil
	}
	t.DialTLSContext = nil
	t.ForceAttemptHTTP2, t.Protocols = false, new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return transport{t}
}

type transport struct{ next *http.Transport }

// RoundTrip arms the connection that the request gets with the request's own check.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, what := r.Context(), r.Method+" "+r.URL.Path
	var check func() error            // none for a request that only reads
	var refused atomic.Pointer[error] // what the check said
	if _, ok := providers.NotAfter(ctx); ok {
		check = func() error {
			err := providers.InTime(ctx, what)
			if err != nil {
				refused.CompareAndSwap(nil, &err)
			}
			return err
		}
		if err := check(); err != nil { // no need to connect
			if r.Body != nil {
				_ = r.Body.Close() // as RoundTripper wants it
			}
			return nil, err
		}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { arm(i.Conn, check) }})
	res, err := t.next.RoundTrip(r.WithContext(ctx))
	if late := refused.Load(); err != nil && late != nil {
		return nil, *late // http.Transport may have noticed first that the connection is of no use any more
	}
	return res, err
}

// CloseIdleConnections is what http.Client looks for.
func (t transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// arm sets what is checked before each write to a connection, which may be below TLS.
func arm(c net.Conn, check func() error) {
	for {
		switch below := c.(type) {
		case *conn:
			below.check.Store(&check)
			return
		case interface{ NetConn() net.Conn }:
			c = below.NetConn()
		default: // no connection that Transport has not dialed comes here
			return
		}
	}
}

// conn is a connection whose writes are checked.
type conn struct {
	net.Conn
	check atomic.Pointer[func() error] // of the request that has the connection
}

// Write sends b, unless the check says no. A request that was cut short by it is none: a server
// does not act on it.
func (c *conn) Write(b []byte) (int, error) {
	if check := c.check.Load(); check != nil && *check != nil {
		if err := (*check)(); err != nil {
			return 0, err
		}
		// failpoint: effect-leaving
	}
	return c.Conn.Write(b)
}
