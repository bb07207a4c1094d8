// Package freeport finds free loopback ports for peers that run on one machine, in a test
// or a demo. It owns the claims on them, across processes. It opens none of the ports, and
// production peers do not use it.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Blocks are below the ephemeral port range, so that the port of a stopped peer stays free
// until it restarts.
const (
	firstPort = 10_000
	lastPort  = 32_000
	blockSize = 1 + Size
	maxBlocks = 200 // before Claim fails

	answerTime = 200 * time.Millisecond // for a port that is in use
)

// Size is the number of ports in a block: four for each of seven peers.
const Size = 4 * 7

// Block is a range of ports that no other Block on this machine has. A listener on the port
// before the range claims it, also against other processes, and the kernel releases the
// claim when the process ends. A Block is for one goroutine.
type Block struct {
	claim net.Listener
	next  int
	end   int
}

// Claim returns a block in which at least n ports, at most Size, are free for TCP and UDP.
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

// free checks that n ports are free for TCP and UDP. Gossip uses both. It asks each port instead of
// listening on it: between fork and exec, a child has copies of all sockets of this process, so a
// port could stay in use after the listener was closed here.
func free(ctx context.Context, first, n int) error {
	for port := first; port < first+n; port++ {
		for _, network := range []string{"tcp", "udp"} {
			switch err := ask(ctx, network, loopback(port)); {
			case err == nil:
				return fmt.Errorf("claim %s port %d: it is in use", network, port)
			case !errors.Is(err, syscall.ECONNREFUSED):
				return fmt.Errorf("claim %s port %d: %w", network, port, err)
			}
		}
	}
	return nil
}

// ask returns ECONNREFUSED if nothing listens on the address.
func ask(ctx context.Context, network, addr string) error {
	c, err := (&net.Dialer{Timeout: answerTime}).DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if network == "tcp" {
		return nil
	}
	// The kernel refuses an empty datagram to a closed port, and the next read returns that.
	if _, err := c.Write(nil); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// Address returns the next port of the block, as host:port. It panics if all claimed ports
// are taken.
func (b *Block) Address(host string) string {
	if b.next == b.end {
		panic("freeport: more addresses taken than claimed")
	}
	b.next++
	return net.JoinHostPort(host, strconv.Itoa(b.next-1))
}

// Release releases the ports of the block.
func (b *Block) Release() error { return b.claim.Close() }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
