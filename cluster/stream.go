package cluster

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// stream is the layer that Raft's transport dials and accepts through: plain TCP. TLS belongs here.
// It remembers its connections, so that closing it closes them too: the transport would
// leave idle ones open, and others would believe that this peer is alive.
type stream struct {
	net.Listener
	advertise address

	mu     sync.Mutex
	conns  map[*streamConn]struct{}
	closed bool
}

// address is a host:port that is told to others.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// listen opens the Raft listener. advertise may be empty: then it is where the listener is.
func listen(addr, advertise string) (*stream, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for raft on %s: %w", addr, err)
	}
	if advertise == "" {
		advertise = l.Addr().String()
	}
	if err := reachable("raft", advertise); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &stream{Listener: l, advertise: address(advertise), conns: map[*streamConn]struct{}{}}, nil
}

// Addr gives the advertised address: Raft sends it to its peers.
func (s *stream) Addr() net.Addr { return s.advertise }

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(c)
}

// Dial implements raft.StreamLayer.
func (s *stream) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", string(addr), timeout)
	if err != nil {
		return nil, err
	}
	return s.track(c)
}

func (s *stream) track(c net.Conn) (net.Conn, error) {
	t := &streamConn{Conn: c, s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	s.conns[t] = struct{}{}
	return t, nil
}

// Close closes the listener and every connection.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*streamConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	err := s.Listener.Close()
	for _, c := range conns {
		_ = c.Close()
	}
	return err
}

type streamConn struct {
	net.Conn
	s *stream
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}
