package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/transport"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

const (
	handoverTimeout = 5 * time.Second
	leaveTimeout    = 5 * time.Second
	hangUpAfter     = time.Second
)

// lastWords is the time for answers of pending calls to leave.
const lastWords = 100 * time.Millisecond

// abandon ends this peer's part in the cluster without touching the disk: the others see its
// connections close and elect a leader, pending calls are answered, and gossip spreads the reason.
func (n *Peer) abandon() {
	n.gate.HangUp()
	_ = n.stream.Close()
	n.terms.StepDown(n.raft.CurrentTerm())
	n.end()
	n.gossip.Publish()
	time.Sleep(lastWords)
}

// handOver calls before, transfers the leadership, and ends the membership if LeaveOnStop is set.
// The leader's tasks have stopped.
func (n *Peer) handOver(ctx context.Context, before func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
	defer cancel()
	if _, ok := n.terms.Current(); ok && before != nil {
		before(ctx)
	}
	if n.raft.State() == raft.Leader {
		if others, _ := n.raft.voters(); len(others) > 0 {
			if err := n.terms.Transfer(ctx); err != nil {
				n.log.Warn("leadership transfer failed", "error", err)
			} else {
				// This peer votes for its successor. If its listener closed first, the
				// death watches of the others would stand against the successor.
				n.terms.AwaitSuccessor(ctx, n.cfg.scale(baseHeartbeat))
			}
		}
	}
	if n.cfg.LeaveOnStop {
		if err := n.leave(ctx); err != nil {
			n.log.Error("leaving the cluster failed: remove this peer by hand", "error", err)
		}
	}
}

var errShutdownHangs = errors.New("raft shutdown timed out: the disk may hang")

// shutdown closes everything that New opened.
func (n *Peer) shutdown(ctx context.Context, orderly bool) error {
	if !orderly {
		_ = n.stream.Close() // as a crash would
	}
	ctx, cancel := context.WithTimeout(ctx, transport.ShutdownTimeout)
	defer cancel()
	err := n.shutdownRaft(ctx)
	n.end() // after Raft has answered the pending calls
	n.terms.StepDown(n.raft.CurrentTerm())
	n.gossip.Close(orderly)
	n.conns.Close()
	if errors.Is(err, wait.ErrStopped) {
		return errShutdownHangs
	}
	return errors.Join(err, n.closeStores(ctx, orderly))
}

// closeStores waits for the last write, and for the disk.
func (n *Peer) closeStores(ctx context.Context, orderly bool) error {
	closed := make(chan error, 1)
	go func() { // ends with the write
		var noted error
		if orderly {
			noted = n.marks.Stop()
		}
		closed <- errors.Join(noted, n.stores.Close())
	}()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return errShutdownHangs
	}
}

// shutdownRaft waits until Raft has shut down. Raft waits for its calls to other peers, and
// a hanging peer answers none, so after hangUpAfter their connections are closed.
func (n *Peer) shutdownRaft(ctx context.Context) error {
	ending := n.raft.Shutdown()
	soon, cancel := context.WithTimeout(ctx, hangUpAfter)
	defer cancel()
	err := wait.For(soon, ending)
	if errors.Is(err, wait.ErrStopped) {
		n.gate.HangUp()
		err = wait.For(ctx, ending)
	}
	return err
}

// leave asks the leader to remove this peer from the cluster.
func (n *Peer) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	for {
		changed := n.changed.Wait()
		var err error
		if id, self, ok := n.Leader(); ok && !self {
			if err = n.ask.leave(ctx, id); err == nil {
				return nil
			}
		} else if self {
			// The peer was asked to hand over, but its successor may not have won, so it
			// still leads or leads again.
			if err = n.terms.Transfer(ctx); err != nil {
				err = fmt.Errorf("hand over the leadership: %w", err)
			}
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("leave the cluster: %w", ctx.Err()), err)
		}
	}
}

// Close stops the peer at once without handing over, as a crash would. Run returns soon
// after. It is for tests, and for a Peer that was never run.
func (n *Peer) Close() {
	n.closeOnce.Do(func() { close(n.closing) })
	if !n.ran.Load() {
		_ = n.shutdown(context.Background(), false)
	}
}
