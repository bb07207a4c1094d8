package cluster

import (
	"context"
	"net"
	"time"
)

const (
	// dialPatience bounds one try to connect to another peer. The kernel repeats a lost SYN after
	// 1, 3 and 7 s: who tries anew instead is connected within a second after the network has come
	// back.
	dialPatience = time.Second
	// helloPatience bounds the handshake. A process that is stopped makes none, and Raft's shutdown
	// waits for who tries.
	helloPatience = 4 * time.Second
	// ackPatience is how long the other host may acknowledge nothing of what was sent. Then the
	// connection is given up: the kernel would try again less and less often, for minutes. A
	// process that is stopped or has a slow disk does not matter, its kernel acknowledges.
	ackPatience = 3 * time.Second
)

// dialer connects to other peers.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: min(timeout, dialPatience), Control: giveUpUnacknowledged}
}

// dialPeer connects to another peer, for gRPC.
func dialPeer(ctx context.Context, addr string) (net.Conn, error) {
	return dialer(dialPatience).DialContext(ctx, "tcp", addr)
}
