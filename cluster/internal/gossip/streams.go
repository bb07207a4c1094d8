package gossip

import (
	"net"
	"sync"

	"github.com/hashicorp/memberlist"
)

// limitedTransport is memberlist's own transport with a limit of accepted connections. The library
// closes each of them after TCPTimeout, but accepts any number.
type limitedTransport struct {
	*memberlist.NetTransport

	streams chan net.Conn
	once    sync.Once
	stop    chan struct{}
}

// limitStreams opens the port of a configuration, and sets its port if that is zero.
func limitStreams(c *memberlist.Config, limit func(net.Listener) net.Listener) (memberlist.Transport, error) {
	nc := &memberlist.NetTransportConfig{BindAddrs: []string{c.BindAddr}, BindPort: c.BindPort, Logger: c.Logger}
	nt, err := memberlist.NewNetTransport(nc)
	for range 9 { // the port that the kernel has chosen for TCP may be in use for UDP
		if err == nil || c.BindPort != 0 {
			break
		}
		nt, err = memberlist.NewNetTransport(nc)
	}
	if err != nil {
		return nil, err
	}
	if c.BindPort == 0 {
		c.BindPort = nt.GetAutoBindPort()
		c.AdvertisePort = c.BindPort
	}
	t := &limitedTransport{NetTransport: nt, streams: make(chan net.Conn), stop: make(chan struct{})}
	go t.accept(limit(accepted{t})) // ends with Shutdown
	return t, nil
}

func (t *limitedTransport) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case t.streams <- c:
		case <-t.stop:
			_ = c.Close()
			return
		}
	}
}

// StreamCh implements memberlist.Transport.
func (t *limitedTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. The library's own transport may wait until its last
// connection is taken.
func (t *limitedTransport) Shutdown() error {
	err := t.NetTransport.Shutdown()
	t.once.Do(func() { close(t.stop) })
	return err
}

// accepted is a listener of the connections that a transport has accepted.
type accepted struct{ t *limitedTransport }

// Accept implements net.Listener.
func (a accepted) Accept() (net.Conn, error) {
	select {
	case c := <-a.t.NetTransport.StreamCh():
		return c, nil
	case <-a.t.stop:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Shutdown closes the port.
func (a accepted) Close() error { return nil }

// Addr implements net.Listener.
func (a accepted) Addr() net.Addr { return &net.TCPAddr{Port: a.t.GetAutoBindPort()} }
