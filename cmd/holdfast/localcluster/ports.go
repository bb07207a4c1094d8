package localcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Blocks of ports lie below the range that outgoing connections take theirs from, so that the port of a peer that
// is down stays free until it is back.
const (
	firstPort = 10_000
	lastPort  = 32_000
	blockSize = 1 + 4*maxPeers
	maxBlocks = 200 // tried before it is given up
)

// block is some ports that no other local cluster of this machine takes. A listener on the first one claims
// the rest, also against other processes, and the kernel takes the claim back when we die.
type block struct {
	claim net.Listener
	next  int
}

// claimBlock finds a block in which at least n ports besides the first are free.
func claimBlock(ctx context.Context, n int) (*block, error) {
	var last error
	for range maxBlocks {
		first := firstPort + rand.N((lastPort-firstPort)/blockSize)*blockSize
		claim, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(first))
		if err != nil {
			last = err
			continue
		}
		if last = free(ctx, first+1, n); last == nil {
			return &block{claim: claim, next: first + 1}, nil
		}
		last = errors.Join(last, claim.Close())
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d: %w", n, firstPort, lastPort, last)
}

// free tries n ports, for TCP and for UDP: gossip takes both.
func free(ctx context.Context, first, n int) error {
	var lc net.ListenConfig
	for port := first; port < first+n; port++ {
		l, err := lc.Listen(ctx, "tcp", loopback(port))
		if err != nil {
			return err
		}
		p, err := lc.ListenPacket(ctx, "udp", loopback(port))
		if err == nil {
			err = p.Close()
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return err
		}
	}
	return nil
}

// address gives the next port of the block on a host.
func (b *block) address(host string) string {
	b.next++
	return net.JoinHostPort(host, strconv.Itoa(b.next-1))
}

func (b *block) release() error { return b.claim.Close() }

// localhost is where peers are when nobody says otherwise.
const localhost = "127.0.0.1"

func loopback(port int) string { return net.JoinHostPort(localhost, strconv.Itoa(port)) }
