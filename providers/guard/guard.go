// Package guard sends effects over HTTP in time or not at all: it checks the not-after time of a
// request's context in the last line before the system call.
//
// It owns that check, and the time that the kernel tries to deliver data. It must not interpret
// requests, and it never retries one.
package guard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// dialTime bounds connecting, if a transport has no dialer of its own.
const dialTime = 10 * time.Second

// Client returns a client with Transport(t). It follows no redirect, which would send the login
// elsewhere.
func Client(t *http.Transport) *http.Client {
	return &http.Client{
		Transport:     Transport(t),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Transport returns a RoundTripper like t that sends nothing once the not-after time of a request's
// context has passed. The error then has class Late. It speaks HTTP/1.1, which has one request at
// a time on a connection. A DialTLSContext of t is ignored.
func Transport(t *http.Transport) http.RoundTripper {
	t = t.Clone()
	dial := t.DialContext
	if dial == nil {
		dial = Dial(dialTime)
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

// RoundTrip attaches the check of the request to the connection that it is sent on.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, what := r.Context(), r.Method+" "+r.URL.Path
	var check func() error            // nil for a request that only reads
	var refused atomic.Pointer[error] // the error of the check
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
				_ = r.Body.Close() // RoundTripper requires it
			}
			return nil, err
		}
	}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { arm(i.Conn, check) }}
	ctx = httptrace.WithClientTrace(ctx, trace)
	res, err := t.next.RoundTrip(r.WithContext(ctx))
	if late := refused.Load(); err != nil && late != nil {
		return nil, *late // http.Transport may have reported the broken connection first
	}
	if err != nil {
		return nil, plain(err)
	}
	res.Body = plainBody{res.Body}
	return res, nil
}

// CloseIdleConnections implements the optional interface that http.Client uses.
func (t transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// arm sets the check that runs before each write to a connection, which may be below TLS.
func arm(c net.Conn, check func() error) {
	for {
		switch below := c.(type) {
		case *conn:
			below.check.Store(&check)
			return
		case interface{ NetConn() net.Conn }:
			c = below.NetConn()
		default: // unreachable: Transport has dialed all connections
			return
		}
	}
}

// conn is a connection whose writes are checked.
type conn struct {
	net.Conn
	check atomic.Pointer[func() error] // of the request that uses the connection
}

// Write sends b if the check passes. A request that the check cuts short has no effect: a server
// does not act on an incomplete request.
func (c *conn) Write(b []byte) (int, error) {
	if check := c.check.Load(); check != nil && *check != nil {
		if err := (*check)(); err != nil {
			return 0, err
		}
		// failpoint: effect-leaving
	}
	return c.Conn.Write(b)
}
