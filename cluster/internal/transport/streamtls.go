package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// maxStreamAge limits the lifetime of a connection between peers. Certificates are verified
// only at its beginning, so this bounds how long a removed CA is still accepted. Raft and
// the death watch reconnect at once.
const maxStreamAge = 24 * time.Hour

// streamTLS adds TLS to the connections of a stream.
type streamTLS struct {
	store *peertls.Store
	at    func(addr string) []string // the peers that may be at an address; none if it is unknown
	serve *tls.Config
	pace  liblog.Pace // of refusals, which any caller can cause
}

// newStreamTLS returns nil if there is no store.
func newStreamTLS(store *peertls.Store, at func(addr string) []string) *streamTLS {
	if store == nil {
		return nil
	}
	return &streamTLS{store: store, at: at, serve: store.PeerServer()}
}

// server does not perform the handshake yet, because a silent client must not block the
// listener.
func (t *streamTLS) server(c net.Conn) net.Conn {
	raw := peertls.Bounded(c)
	peertls.Bound(raw, time.Now().Add(maxStreamAge))
	return &secureConn{Conn: tls.Server(raw, t.serve), raw: raw}
}

// client performs the handshake with one of the peers known at the address. It closes c if
// that fails.
func (t *streamTLS) client(c net.Conn, addr string, timeout time.Duration) (net.Conn, error) {
	raw := peertls.Bounded(c)
	s := &secureConn{Conn: tls.Client(raw, t.store.PeerClient(t.at(addr)...)), raw: raw}
	err := s.SetDeadline(time.Now().Add(timeout))
	if err == nil {
		err = s.Handshake()
	}
	if err == nil {
		err = s.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	peertls.Bound(raw, time.Now().Add(maxStreamAge))
	peertls.Bound(raw, t.store.End(s.ConnectionState().PeerCertificates[0]))
	return s, nil
}

// refused logs a failed handshake, once a minute. It is at debug level if the other side has just
// disconnected.
func (t *streamTLS) refused(log *slog.Logger, from net.Addr, err error) {
	say := log.Debug
	gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
	before, due := 0, false
	if !gone {
		if before, due = t.pace.Due(); due {
			say = log.Warn
		}
	}
	say("raft connection refused: want a certificate of a peer of this cluster",
		"from", from, "cluster", t.store.Cluster(), "like_it_before", before, "error", err)
}

// secureConn is a TLS connection that closes like TCP. TLS would send an alert first and
// wait seconds for a hanging peer. Raft's messages are self-delimiting, so they do not need
// it.
type secureConn struct {
	*tls.Conn
	raw net.Conn
}

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// of reports whether the other end is the peer id. The handshake must have ended.
func (c *secureConn) of(id string) bool {
	certs := c.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return false
	}
	_, other, ok := peertls.PeerID(certs[0])
	return ok && other == id
}

// Close implements net.Conn.
func (c *secureConn) Close() error { return c.raw.Close() }
