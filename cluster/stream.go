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

// stream is the layer through which Raft's transport dials and accepts. It uses mutual TLS,
// or plain TCP in a cluster that is configured to be insecure.
//
// It tracks its connections and closes them with the listener. The transport would leave
// idle ones open, and other peers would consider this peer alive.
//
// The dialing side sends its cluster id first, and a peer of another cluster closes the
// connection. Gossip keeps clusters apart too, but it may be behind, and entries of another
// cluster's log would destroy both.
type stream struct {
	net.Listener
	advertise address
	cluster   func() string           // empty as long as it is unknown
	sec       *streamTLS              // nil for plain TCP; set before the stream is used
	fault     func(addr string) error // for tests: see Config.dialFault
	log       *slog.Logger

	mu     sync.Mutex
	conns  map[*streamConn]struct{}
	closed bool
}

// address is an advertised host:port.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// listen opens the Raft listener. If advertise is empty, the listen address is advertised.
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
	return &stream{
		Listener:  l,
		advertise: address(advertise),
		cluster:   cluster,
		log:       log,
		conns:     map[*streamConn]struct{}{},
	}, nil
}

// Addr returns the advertised address, which Raft sends to its peers.
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
		if c, err = s.sec.client(c, string(addr), min(timeout, handshakeTimeout)); err != nil {
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

// greeting returns the bytes that begin a connection: a magic word, the length of the
// cluster id, and the id.
func greeting(cluster string) []byte {
	return append(append([]byte(greetingMagic), byte(len(cluster))), cluster...)
}

// greetedConn is an accepted connection. Its greeting is read by the first Read, so that a
// silent client does not block the listener.
type greetedConn struct {
	net.Conn
	s       *stream
	greeted bool
	read    atomic.Int64 // time of the last read, in nanoseconds since 1970
}

// Read implements net.Conn. The transport reads from one goroutine.
func (c *greetedConn) Read(p []byte) (int, error) {
	if !c.greeted {
		if err := c.greet(); err != nil {
			_ = c.Close()
			return 0, io.EOF // already logged
		}
		c.greeted = true
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read.Store(time.Now().UnixNano())
	}
	return n, err
}

// heardFrom reports whether a peer has an open connection to this one and has sent data on
// it within the duration. A process that ends closes its connections in both directions, so
// soon after it is no longer heard from. Without TLS, which is only for loopback,
// connections carry no identity and all of them count.
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
		c.s.log.Warn("raft connection refused: not from a holdfast peer", "from", c.RemoteAddr())
		return errors.New("no greeting")
	}
	id := make([]byte, head[len(greetingMagic)])
	if _, err := io.ReadFull(c.Conn, id); err != nil {
		return err
	}
	if own := c.s.cluster(); len(id) > 0 && own != "" && own != string(id) {
		c.s.log.Error("raft connection refused: from another cluster",
			"from", c.RemoteAddr(), "cluster", string(id), "own", own)
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
