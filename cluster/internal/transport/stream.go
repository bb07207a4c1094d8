package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Stream is the layer through which Raft's transport dials and accepts. It uses mutual TLS,
// or plain TCP in a cluster that is configured to be insecure.
//
// It tracks its connections and closes them with the listener. The transport would leave
// idle ones open, and other peers would consider this peer alive.
//
// The dialing side first says which peer of which cluster it is, and a peer of another cluster
// closes the connection. Gossip keeps clusters apart too, but it may be behind, and entries of
// another cluster's log would destroy both. The greeting also has the marks of package marks, which
// Guard compares before any message counts.
type Stream struct {
	net.Listener
	advertise address
	greeting  func() *internalv1.Greeting
	sec       *streamTLS              // nil for plain TCP
	fault     func(addr string) error // for tests; may be nil
	log       *slog.Logger

	mu     sync.Mutex
	conns  map[*streamConn]struct{}
	closed bool
}

// address is an advertised host:port.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// StreamConfig configures a Stream.
type StreamConfig struct {
	// Addr is the listen address.
	Addr string
	// Advertise is the address that other peers use. If it is empty, that is the listen address.
	Advertise string
	// Greeting returns the beginning of a connection. If it is nil, nothing is known yet.
	Greeting func() *internalv1.Greeting
	// TLS holds the certificates. If it is nil, connections are plain TCP.
	TLS *peertls.Store
	// PeersAt returns the peers that may be at an address; none if it is unknown.
	PeersAt func(addr string) []string
	// Fault makes connections fail, for tests. It may be nil.
	Fault func(addr string) error
	// Limit returns a listener with a limit of connections. It may be nil.
	Limit  func(net.Listener) net.Listener
	Logger *slog.Logger
}

// Listen opens the Raft listener.
func Listen(cfg StreamConfig) (*Stream, error) {
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for raft on %s: %w", cfg.Addr, err)
	}
	advertise := cfg.Advertise
	if advertise == "" {
		advertise = l.Addr().String()
	}
	if err := CheckReachable("raft", advertise); err != nil {
		_ = l.Close()
		return nil, err
	}
	if cfg.Greeting == nil {
		cfg.Greeting = func() *internalv1.Greeting { return &internalv1.Greeting{} }
	}
	if cfg.Limit != nil {
		l = cfg.Limit(l)
	}
	return &Stream{
		Listener:  l,
		advertise: address(advertise),
		greeting:  cfg.Greeting,
		sec:       newStreamTLS(cfg.TLS, cfg.PeersAt),
		fault:     cfg.Fault,
		log:       cfg.Logger,
		conns:     map[*streamConn]struct{}{},
	}, nil
}

// Mute makes the last received data look old, as on a machine that is busy for a moment. It is for
// tests.
func (s *Stream) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.conns {
		if c, ok := t.Conn.(*greetedConn); ok {
			c.read.Store(0)
		}
	}
}

// Addr returns the advertised address, which Raft sends to its peers.
func (s *Stream) Addr() net.Addr { return s.advertise }

// Accept implements net.Listener.
func (s *Stream) Accept() (net.Conn, error) {
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
func (s *Stream) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
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
	hello, err := encode(s.greeting())
	if err == nil {
		_, err = c.Write(hello)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("send the greeting to %s: %w", addr, err), c.Close())
	}
	return s.track(c)
}

const (
	greetingMagic   = "HFR2"
	greetingTimeout = 10 * time.Second
	greetingSize    = 256 << 10 // bytes: far more than one has
)

// encode returns the bytes that begin a connection: a magic word, the length of the greeting, and
// the greeting.
func encode(g *internalv1.Greeting) ([]byte, error) {
	body, err := proto.Marshal(g)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte(greetingMagic), uint32(len(body))), body...), nil
}

// greetedConn is an accepted connection. Its greeting is read by Identify or the first Read, so
// that a silent client does not block the listener.
type greetedConn struct {
	net.Conn
	s    *Stream
	once sync.Once // reads the greeting
	bad  error     // the result of that
	said *internalv1.Greeting
	read atomic.Int64 // time of the last read, in nanoseconds since 1970
}

// Identify reads the greeting, and returns the peer at the other end.
func (c *greetedConn) Identify() (Sender, error) {
	c.once.Do(func() { c.bad = c.greet() })
	if c.bad != nil {
		return Sender{}, c.bad
	}
	secure, ok := c.Conn.(*secureConn)
	if !ok {
		return Sender{}, nil
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	_, id, _ := peertls.PeerID(leaf) // the handshake has checked it
	return Sender{ID: id, Cert: leaf}, nil
}

// Greeting returns what the peer at the other end has said first. Identify must have succeeded.
func (c *greetedConn) Greeting() *internalv1.Greeting { return c.said }

// Read implements net.Conn. The transport reads from one goroutine.
func (c *greetedConn) Read(p []byte) (int, error) {
	if _, err := c.Identify(); err != nil {
		_ = c.Close()
		return 0, io.EOF // already logged
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read.Store(time.Now().UnixNano())
	}
	return n, err
}

// HeardFrom reports whether a peer has an open connection to this one and has sent data on
// it within the duration. A process that ends closes its connections in both directions, so
// soon after it is no longer heard from. Without TLS, which is only for loopback,
// connections carry no identity and all of them count.
func (s *Stream) HeardFrom(id string, within time.Duration) bool {
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
	head := make([]byte, len(greetingMagic)+4)
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
	size := binary.BigEndian.Uint32(head[len(greetingMagic):])
	if size > greetingSize {
		return fmt.Errorf("the greeting has %d bytes, more than %d", size, greetingSize)
	}
	body, said := make([]byte, size), &internalv1.Greeting{}
	if _, err := io.ReadFull(c.Conn, body); err != nil {
		return err
	}
	if err := proto.Unmarshal(body, said); err != nil {
		return fmt.Errorf("read the greeting: %w", err)
	}
	own, id := c.s.greeting().GetClusterId(), said.GetClusterId()
	if id != "" && own != "" && own != id {
		c.s.log.Error("raft connection refused: from another cluster",
			"from", c.RemoteAddr(), "cluster", id, "own", own)
		return errors.New("another cluster")
	}
	if secure, ok := c.Conn.(*secureConn); ok && said.GetPeerId() != "" && !secure.of(said.GetPeerId()) {
		c.s.log.Warn("raft connection refused: the certificate is not that of the named peer",
			"from", c.RemoteAddr(), "id", said.GetPeerId())
		return errors.New("another peer's certificate")
	}
	c.said = said
	return c.SetDeadline(time.Time{})
}

func (s *Stream) track(c net.Conn) (net.Conn, error) {
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
func (s *Stream) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	err := s.Listener.Close()
	for _, c := range conns {
		_ = c.Close()
	}
	return err
}

type streamConn struct {
	net.Conn
	s *Stream
}

// Identify returns the peer at the other end of an accepted connection.
func (c *streamConn) Identify() (Sender, error) {
	if g, ok := c.Conn.(*greetedConn); ok {
		return g.Identify()
	}
	return Sender{}, nil
}

// Greeting returns what the peer at the other end of an accepted connection has said first.
func (c *streamConn) Greeting() *internalv1.Greeting {
	if g, ok := c.Conn.(*greetedConn); ok {
		return g.Greeting()
	}
	return nil
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}
