package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// stream is the layer that Raft's transport dials and accepts through: mutual TLS, or plain TCP for
// a cluster that is insecure on purpose.
//
// It remembers its connections, so that closing it closes them too: the transport would
// leave idle ones open, and others would believe that this peer is alive.
//
// The dialing side names its cluster first, and a peer of another cluster hangs up. Gossip keeps
// clusters apart too, but it may be behind, and entries of another cluster's log would be the end
// of both.
type stream struct {
	net.Listener
	advertise address
	cluster   func() string           // empty while it is not known
	sec       *streamTLS              // nil for plain TCP; set before anybody uses the stream
	fault     func(addr string) error // for tests: see Config.dialFault
	log       *slog.Logger

	mu     sync.Mutex
	conns  map[*streamConn]struct{}
	closed bool
}

// address is a host:port that is told to others.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// listen opens the Raft listener. advertise may be empty: then it is where the listener is.
func listen(addr, advertise string, cluster func() string, log *slog.Logger) (*stream, error) {
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
	return &stream{Listener: l, advertise: address(advertise), cluster: cluster, log: log, conns: map[*streamConn]struct{}{}}, nil
}

// Addr returns the advertised address: Raft sends it to its peers.
func (s *stream) Addr() net.Addr { return s.advertise }

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if s.sec != nil {
		c = s.sec.server(c)
	}
	return s.track(&greetedConn{Conn: c, s: s})
}

// Dial implements raft.StreamLayer.
func (s *stream) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if s.fault != nil {
		if err := s.fault(string(addr)); err != nil {
			return nil, err
		}
	}
	c, err := dialer(timeout).Dial("tcp", string(addr))
	if err != nil {
		return nil, err
	}
	if s.sec != nil {
		if c, err = s.sec.client(c, string(addr), min(timeout, helloPatience)); err != nil {
			return nil, fmt.Errorf("connect to the peer at %s: %w", addr, err)
		}
	}
	if _, err := c.Write(greeting(s.cluster())); err != nil {
		return nil, errors.Join(fmt.Errorf("greet %s: %w", addr, err), c.Close())
	}
	return s.track(c)
}

const (
	greetingMagic   = "HFR1"
	greetingTimeout = 10 * time.Second
)

// greeting is what a connection begins with: a magic word, and the cluster's id with its length
// before it.
func greeting(cluster string) []byte {
	return append(append([]byte(greetingMagic), byte(len(cluster))), cluster...)
}

// greetedConn is an accepted connection. The greeting is read with the first read, so that nobody
// who says nothing holds up the listener.
type greetedConn struct {
	net.Conn
	s       *stream
	greeted bool
	read    atomic.Int64 // when something was last read, in nanoseconds since 1970
}

// Read implements net.Conn. The transport reads from one goroutine.
func (c *greetedConn) Read(p []byte) (int, error) {
	if !c.greeted {
		if err := c.greet(); err != nil {
			_ = c.Close()
			return 0, io.EOF // it has been logged
		}
		c.greeted = true
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read.Store(time.Now().UnixNano())
	}
	return n, err
}

// heardFrom reports whether a peer has an open connection to this one and has sent something on it
// within a time. A process that ends closes its connections in both directions, so it is not heard
// from any more a moment later. Without TLS, which only peers on loopback do, connections have no
// identity: all of them count.
func (s *stream) heardFrom(id string, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.conns {
		c, ok := t.Conn.(*greetedConn)
		if !ok || time.Since(time.Unix(0, c.read.Load())) > within {
			continue
		}
		if secure, ok := c.Conn.(*secureConn); !ok || secure.of(id) {
			return true
		}
	}
	return false
}

func (c *greetedConn) greet() error {
	err := c.SetDeadline(time.Now().Add(greetingTimeout))
	if secure, ok := c.Conn.(*secureConn); ok && err == nil {
		if err = secure.Handshake(); err != nil {
			c.s.sec.refused(c.s.log, c.RemoteAddr(), err)
		}
	}
	head := make([]byte, len(greetingMagic)+1)
	if err == nil {
		_, err = io.ReadFull(c.Conn, head)
	}
	if err != nil {
		return err
	}
	if string(head[:len(greetingMagic)]) != greetingMagic {
		c.s.log.Warn("connection to the raft port refused: it is not a holdfast peer's", "from", c.RemoteAddr())
		return errors.New("no greeting")
	}
	id := make([]byte, head[len(greetingMagic)])
	if _, err := io.ReadFull(c.Conn, id); err != nil {
		return err
	}
	if own := c.s.cluster(); len(id) > 0 && own != "" && own != string(id) {
		c.s.log.Error("raft connection refused: it comes from another cluster", "from", c.RemoteAddr(), "cluster", string(id), "own", own)
		return errors.New("another cluster")
	}
	return c.SetDeadline(time.Time{})
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
