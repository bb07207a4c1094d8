package transport

import (
	"context"
	"fmt"
	"net"
	"time"
)

const (
	// connectTimeout bounds one attempt to connect to another peer. The kernel repeats a
	// lost SYN after 1, 3 and 7 s. A new attempt each second connects within a second after
	// the network is back.
	connectTimeout = time.Second
	// handshakeTimeout bounds the handshake. A suspended process performs none, and Raft's
	// shutdown waits for pending attempts.
	handshakeTimeout = 4 * time.Second
	// ackTimeout is how long the other host may leave sent data unacknowledged before the
	// connection is closed. The kernel would retransmit ever more rarely, for minutes. A
	// suspended process or a slow disk does not matter, because its kernel acknowledges.
	ackTimeout = 3 * time.Second
)

// dialer returns a dialer for connections to other peers.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: min(timeout, connectTimeout), Control: giveUpUnacknowledged}
}

// DialPeer opens a gRPC connection to another peer.
func DialPeer(ctx context.Context, addr string) (net.Conn, error) {
	return dialer(connectTimeout).DialContext(ctx, "tcp", addr)
}

// CheckReachable returns an error if other peers cannot use an address, such as that of a
// listener on all interfaces.
func CheckReachable(what, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s address %q: want host:port: %w", what, addr, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("%s address %q is not reachable for other peers: "+
			"set --advertise-%s to one that is", what, addr, what)
	}
	return nil
}
