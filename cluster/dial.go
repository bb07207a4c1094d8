package cluster

import (
	"context"
	"net"
	"time"
)

const (
	// connectTimeout bounds one attempt to connect to another peer. The kernel repeats a
	// lost SYN after 1, 3 and 7 s. A new attempt each second connects within a second after
	// the network is back.
	connectTimeout = time.Second
	// helloTimeout bounds the handshake. A suspended process performs none, and Raft's
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

// dialPeer opens a gRPC connection to another peer.
func dialPeer(ctx context.Context, addr string) (net.Conn, error) {
	return dialer(connectTimeout).DialContext(ctx, "tcp", addr)
}
