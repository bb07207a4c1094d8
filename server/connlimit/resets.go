package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// A caller can open a stream of HTTP/2 and reset it at once, or make the server reset it, as fast
// as it can write: the limits of open streams and of calls see none of it, but each costs a header
// and a handler. The libraries end such a connection only if handlers pile up. So resets of both
// sides are counted. A caller may reset all of its streams at once, and then some each second.
const (
	resetsPerSecond = 100
	resetsOfGRPC    = 8192 // as many as a connection may have streams
	resetsOfHTTP    = 1000 // four times as many
)

var errResets = errors.New("the connection has reset too many streams")

// Credentials returns the credentials of a gRPC server, which close a connection with too many
// resets. Connections of peers are exempt: they carry the calls of many callers.
func (l *Limiter) Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return resetCredentials{c, l}
}

type resetCredentials struct {
	credentials.TransportCredentials
	limit *Limiter
}

// ServerHandshake implements credentials.TransportCredentials.
func (c resetCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if i, ok := info.(credentials.TLSInfo); ok && ofPeer(i.State) {
		return conn, info, nil
	}
	return c.limit.countResets(conn, resetsOfGRPC), info, nil
}

// Clone implements credentials.TransportCredentials.
func (c resetCredentials) Clone() credentials.TransportCredentials {
	return resetCredentials{c.TransportCredentials.Clone(), c.limit}
}

// HTTP2 configures HTTP/2 of a server with TLS, which closes a connection with too many resets.
//
//nolint:staticcheck // net/http has no place for a connection above TLS, where frames can be counted
func (l *Limiter) HTTP2(s *http.Server) error {
	conf := &http2.Server{}
	if err := http2.ConfigureServer(s, conf); err != nil {
		return err
	}
	s.TLSNextProto[http2.NextProtoTLS] = func(s *http.Server, c *tls.Conn, h http.Handler) {
		var conn net.Conn = c
		if state := c.ConnectionState(); !ofPeer(state) {
			conn = &statedConn{l.countResets(c, resetsOfHTTP), state}
		}
		opts := &http2.ServeConnOpts{Handler: h, BaseConfig: s}
		if b, ok := h.(interface{ BaseContext() context.Context }); ok {
			opts.Context = b.BaseContext()
		}
		conf.ServeConn(conn, opts)
	}
	return nil
}

// statedConn has the state of the TLS connection that a connection wraps.
type statedConn struct {
	net.Conn
	state tls.ConnectionState
}

// ConnectionState returns the state of TLS, which package http2 asks for.
func (c *statedConn) ConnectionState() tls.ConnectionState { return c.state }

// ofPeer reports whether the other end has shown the certificate of a peer, which the handshake
// has verified.
func ofPeer(state tls.ConnectionState) bool {
	if len(state.PeerCertificates) == 0 {
		return false
	}
	_, _, ok := peertls.PeerID(state.PeerCertificates[0])
	return ok
}

// countResets returns a connection of HTTP/2 that fails and closes when it has had more resets
// than a number, and more than resetsPerSecond since.
func (l *Limiter) countResets(c net.Conn, most int) net.Conn {
	return &resetConn{Conn: c, allowed: rate.NewLimiter(resetsPerSecond, most),
		in: frames{skip: len(http2.ClientPreface)},
		over: sync.OnceFunc(func() {
			l.closed.WithLabelValues("resets").Inc()
			_ = c.Close()
		})}
}

type resetConn struct {
	net.Conn
	allowed *rate.Limiter
	over    func()
	in, out frames // each is used by one goroutine at a time
}

// Read implements net.Conn.
func (c *resetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.allow(&c.in, p[:n]) {
		return 0, errResets
	}
	return n, err
}

// Write implements net.Conn.
func (c *resetConn) Write(p []byte) (int, error) {
	if !c.allow(&c.out, p) {
		return 0, errResets
	}
	return c.Conn.Write(p)
}

func (c *resetConn) allow(f *frames, p []byte) bool {
	for range f.resets(p) {
		if !c.allowed.Allow() {
			c.over()
			return false
		}
	}
	return true
}

const frameHeader = 9 // bytes: the length of the payload (3), the type, flags, and the stream (4)

// frames is the position in one direction of a connection of HTTP/2.
type frames struct {
	skip int // bytes until the next header
	head [frameHeader]byte
	have int // bytes of the header
}

// resets returns the number of resets in the next bytes.
func (f *frames) resets(p []byte) (n int) {
	for len(p) > 0 {
		if f.skip > 0 {
			most := min(f.skip, len(p))
			f.skip, p = f.skip-most, p[most:]
			continue
		}
		most := copy(f.head[f.have:], p)
		f.have, p = f.have+most, p[most:]
		if f.have < frameHeader {
			continue
		}
		f.have, f.skip = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
		if http2.FrameType(f.head[3]) == http2.FrameRSTStream {
			n++
		}
	}
	return n
}
