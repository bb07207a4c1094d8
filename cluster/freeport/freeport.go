// Package freeport finds ports of the loopback interface for peers that run on one machine, in a
// test or a demo. It owns the claims on them, across processes; it opens none of the ports it
// gives, and a production peer has no use for it.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Blocks lie below the range that outgoing connections take their ports from, so that the port of a
// peer that is down stays free until it is back.
const (
	firstPort = 10_000
	lastPort  = 32_000
	blockSize = 1 + Size
	maxBlocks = 200 // tried before it is given up
)

// Size is the number of ports in a block: four for each of seven peers.
const Size = 4 * 7

// Block is some ports that no other Block of this machine has. A listener on the port before them
// claims them, also against other processes, and the kernel takes the claim back when we die. A
// Block serves one goroutine.
type Block struct {
	claim net.Listener
	next  int
	end   int
}

// Claim finds a block in which at least n ports, at most Size, are free for TCP and UDP.
func Claim(ctx context.Context, n int) (*Block, error) {
	if n < 1 || n > Size {
		return nil, fmt.Errorf("claim %d ports: a block has 1 to %d", n, Size)
	}
	var last error
	for range maxBlocks {
		first := firstPort + rand.N((lastPort-firstPort)/blockSize)*blockSize
		claim, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(first))
		if err != nil {
			last = err
			continue
		}
		if last = free(ctx, first+1, n); last == nil {
			return &Block{claim: claim, next: first + 1, end: first + 1 + n}, nil
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

// Address returns the next port of the block, as host:port. It panics when more are asked for than
// were claimed.
func (b *Block) Address(host string) string {
	if b.next == b.end {
		panic("freeport: more addresses taken than claimed")
	}
	b.next++
	return net.JoinHostPort(host, strconv.Itoa(b.next-1))
}

// Release returns the ports back: others may take them from now on.
func (b *Block) Release() error { return b.claim.Close() }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
