package transport

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Sender is the peer at the other end of a connection. It is empty without TLS.
type Sender struct {
	ID   string
	Cert *x509.Certificate
}

// key distinguishes senders: a peer with another certificate is another one.
func (s Sender) key() string {
	if s.Cert == nil {
		return s.ID
	}
	return s.ID + "\x00" + s.Cert.SerialNumber.String()
}

// Guard decides whose connections and messages reach Raft. The library itself checks only who
// may stand for election.
type Guard struct {
	// Connect returns an error if a peer may not send anything. It is asked for each connection,
	// and again each second in which messages arrive.
	Connect func(Sender) error
	// Greet returns an error if the data directory of the peer that has sent a greeting, or that of
	// this peer, must not vote. It is asked for each connection that Connect allows.
	Greet func(*internalv1.Greeting) error
	// Message returns an error if a peer may not send this message of Raft, whose header names a
	// peer.
	Message func(from Sender, named string, message any) error
}

// recheckAfter is how long the answer of Guard.Connect counts.
const recheckAfter = time.Second

// inbox receives Raft's messages from one peer. The library does not tell on which connection a
// message has arrived, so each peer has a transport of its own.
type inbox struct {
	*raft.NetworkTransport
	from    Sender
	conns   chan net.Conn
	checked atomic.Int64 // when Guard.Connect has allowed the sender, in nanoseconds since 1970

	mu   sync.Mutex
	open map[net.Conn]struct{}

	once sync.Once
	stop chan struct{}
	addr net.Addr
}

var errNoDial = errors.New("this transport only receives")

// Accept implements net.Listener.
func (b *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.stop:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (b *inbox) Addr() net.Addr { return b.addr }

// Dial implements raft.StreamLayer.
func (b *inbox) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return nil, errNoDial }

// layer is the stream layer of an inbox, whose own Close is that of the transport.
type layer struct{ *inbox }

// Close implements net.Listener.
func (l layer) Close() error {
	l.once.Do(func() { close(l.stop) })
	return nil
}

// hangUp closes all connections from the peer.
func (b *inbox) hangUp() {
	b.mu.Lock()
	all := slices.Collect(maps.Keys(b.open))
	b.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// inboxConn is a connection of an inbox.
type inboxConn struct {
	net.Conn
	b *inbox
}

// Close implements net.Conn.
func (c *inboxConn) Close() error {
	c.b.mu.Lock()
	delete(c.b.open, c)
	c.b.mu.Unlock()
	return c.Conn.Close()
}

// outgoing is the stream layer of the transport that sends: it accepts nothing.
type outgoing struct {
	raft.StreamLayer
	stop <-chan struct{}
}

// Accept implements net.Listener.
func (o outgoing) Accept() (net.Conn, error) {
	<-o.stop
	return nil, net.ErrClosed
}

const acceptPause = 50 * time.Millisecond // after a failed accept

// listen gives each accepted connection to the inbox of its peer.
func (g *Gate) listen() {
	for {
		c, err := g.layer.Accept()
		if err == nil {
			go g.route(c) // ends when the connection has greeted, which takes at most greetingTimeout
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		g.log.Error("cannot accept a raft connection", "error", err)
		select {
		case <-time.After(acceptPause):
		case <-g.stop:
			return
		}
	}
}

func (g *Gate) route(c net.Conn) {
	var from Sender
	var err error
	if k, ok := c.(interface{ Identify() (Sender, error) }); ok {
		from, err = k.Identify()
	}
	if err == nil && g.guard.Connect != nil {
		err = g.guard.Connect(from)
	}
	if k, ok := c.(interface{ Greeting() *internalv1.Greeting }); ok && err == nil && g.guard.Greet != nil {
		err = g.guard.Greet(k.Greeting())
	}
	if err != nil {
		_ = c.Close()
		return
	}
	b := g.inbox(from)
	if b == nil {
		_ = c.Close()
		return
	}
	b.checked.Store(time.Now().UnixNano())
	in := &inboxConn{Conn: c, b: b}
	b.mu.Lock()
	b.open[in] = struct{}{}
	b.mu.Unlock()
	select {
	case b.conns <- in:
	case <-g.stop:
		_ = in.Close()
	}
}

// inbox returns the inbox of a peer, or nil if the gate is closed.
func (g *Gate) inbox(from Sender) *inbox {
	g.inboxes.Lock()
	defer g.inboxes.Unlock()
	if g.inboxes.closed {
		return nil
	}
	if b, ok := g.inboxes.by[from.key()]; ok {
		return b
	}
	b := &inbox{
		from: from, conns: make(chan net.Conn), open: map[net.Conn]struct{}{}, stop: make(chan struct{}),
		addr: g.layer.Addr(),
	}
	b.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger: liblog.New(g.log, "raft-net"), Stream: layer{b}, Timeout: transportTimeout, MsgpackUseNewTimeFormat: true,
	})
	b.SetHeartbeatHandler(func(rpc raft.RPC) { g.heartbeat(b, rpc) })
	g.inboxes.by[from.key()] = b
	g.inboxes.pumps.Go(func() { g.pump(b) })
	return b
}

// inboxes are the inboxes of a gate by the keys of their peers.
type inboxes struct {
	sync.Mutex
	by     map[string]*inbox
	closed bool
	pumps  sync.WaitGroup
}

// close closes all inboxes and waits for their pumps, which end with the gate.
func (g *Gate) closeInboxes() (err error) {
	g.inboxes.Lock()
	g.inboxes.closed = true
	all := g.inboxes.by
	g.inboxes.by = nil
	g.inboxes.Unlock()
	for _, b := range all {
		err = errors.Join(err, b.NetworkTransport.Close())
		b.hangUp()
	}
	g.inboxes.pumps.Wait()
	return err
}

// permit returns an error if a message may not reach Raft. It then closes the connections of a
// peer that may no longer send anything.
func (g *Gate) permit(b *inbox, message any) error {
	if now := time.Now(); g.guard.Connect != nil && now.Sub(time.Unix(0, b.checked.Load())) > recheckAfter {
		if err := g.guard.Connect(b.from); err != nil {
			b.hangUp()
			return err
		}
		b.checked.Store(now.UnixNano())
	}
	if g.guard.Message == nil {
		return nil
	}
	m, ok := message.(raft.WithRPCHeader)
	if !ok {
		return fmt.Errorf("raft message %T has no header", message)
	}
	return g.guard.Message(b.from, string(m.GetRPCHeader().ID), message)
}
