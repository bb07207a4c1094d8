package cluster_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// silence is longer than the time after which a calm peer counts as silent.
const silence = calmMultiplier * 250 * time.Millisecond

// watchEvery is the minimum time between two dials of the death watch after a refusal.
const watchEvery = 300 * time.Millisecond

// TestRejectedDirection tests a firewall that rejects the connections of one follower to
// the leader's Raft port, while everything else works. The leader must keep its term, even
// after a gap in its messages, and when the third peer stops, which leaves no majority
// without the two.
// Peers tolerate pauses of a busy machine for some seconds.
func TestRejectedDirection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", secure), func(t *testing.T) {
			var rejected atomic.Pointer[[2]string] // from and to
			c := clustertest.Start(t, clustertest.Options{OnDisk: true, TLS: secure, Configure: func(_ int, c *cluster.Config) {
				id := c.PeerID
				c.RaftMultiplier = calmMultiplier
				c.FailDials(func(addr string) error {
					if r := rejected.Load(); r != nil && r[0] == id && r[1] == addr {
						return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
					}
					return nil
				})
			}})
			settled(t, c, 3)
			third := c.Leader()
			others := c.Followers(third)
			leader, follower := others[0], others[1]
			rejected.Store(&[2]string{follower.ID, leader.Node.RaftAddr()})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			clustertest.Eventually(t, 20*time.Second, leader.ID+" to lead", func() error {
				id, _, _ := follower.Node.Leader()
				if id == leader.ID {
					return nil
				}
				// Raft gives up a transfer after an election timeout, which is short on a busy
				// machine.
				if _, err := third.Node.TransferTo(ctx, leader.ID); err != nil {
					return fmt.Errorf("transfer the leadership of %q: %w", id, err)
				}
				return fmt.Errorf("%q leads", id)
			})
			term := leader.Node.Term()
			steady := func(when string, d time.Duration) {
				t.Helper()
				n := 0
				for end := time.Now().Add(d); time.Now().Before(end); n++ {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					if err := register(ctx, follower, fmt.Sprintf("%s-%d", when, n)); err != nil {
						t.Errorf("%s: write %d through the follower: %v", when, n, err)
					}
					cancel()
				}
				for _, p := range []*clustertest.Peer{leader, follower} {
					if got := p.Node.Term(); got != term {
						t.Errorf("%s: term of %s: got %d, want %d, without an election", when, p.ID, got, term)
					}
				}
			}
			steady("three", time.Second)
			for end := time.Now().Add(2*watchEvery + silence); time.Now().Before(end); {
				follower.Node.Mute()
				time.Sleep(time.Millisecond) // sleep: for as long as the death watch must see no message
			}
			steady("gap", 200*time.Millisecond)
			c.Kill(third)
			steady("two", 2*time.Second)
		})
	}
}
