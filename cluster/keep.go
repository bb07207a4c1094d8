package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/fsm"
)

// What those may ask of a leader who keep the cluster.

// interlude is something that is done while the leader leads and its tasks stand still.
type interlude struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error // buffered
}

// Interlude stops the leader's tasks, lets do commit what it has to, and starts them again: they
// begin from the state as it is then. When do fails the leadership goes to another peer, because
// tasks do not take up in the same term what they left open; where no other one takes it, this peer
// begins another term. It works on a leader that is ready.
func (n *Node) Interlude(ctx context.Context, do func(context.Context) error) error {
	i := &interlude{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case n.interludes <- i:
	case <-ctx.Done():
		return n.refusal(fmt.Errorf("wait for the leader's tasks: %w", ctx.Err()))
	case <-n.ended:
		return n.refusal(errStopping)
	}
	select {
	case err := <-i.done:
		return err
	case <-ctx.Done():
		return &OutcomeError{Outcome: Unknown, Err: fmt.Errorf("wait for the leader's tasks: %w", ctx.Err())}
	}
}

// newLeaderWait bounds how long TransferTo waits to learn who leads.
const newLeaderWait = 3 * time.Second

// TransferTo hands the leadership to another voter, the furthest that answers when to is empty, and
// gives who leads then. It works on the leader.
func (n *Node) TransferTo(ctx context.Context, to string) (string, error) {
	if _, ok := n.current(); !ok {
		return "", n.refusal(n.notReady())
	}
	if err := n.transferTo(ctx, to); err != nil {
		if _, ok := n.current(); ok {
			return "", &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_TRANSFERRED", Message: err.Error()}
		}
		return "", &OutcomeError{Outcome: Unknown, Err: err}
	}
	if id, ok := n.awaitSuccessor(ctx, newLeaderWait); ok {
		return id, nil
	}
	return "", &OutcomeError{Outcome: Unknown, Err: errors.New("the leadership was handed over, but no new leader is known yet")}
}

// awaitSuccessor blocks until another peer leads, for at most a time, and returns its id.
func (n *Node) awaitSuccessor(ctx context.Context, most time.Duration) (id string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := n.changed.wait()
		if id, self, ok := n.Leader(); ok && !self {
			return id, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}

func (n *Node) transferTo(ctx context.Context, to string) error {
	if to == "" {
		return n.transfer(ctx)
	}
	s, ok := n.server(to)
	switch {
	case to == n.cfg.NodeID:
		return fmt.Errorf("%s leads already", to)
	case !ok || s.Suffrage != raft.Voter:
		return fmt.Errorf("%s is no voter", to)
	}
	n.handingOver.Store(true)
	defer n.handingOver.Store(false)
	addr, err := n.ServerAddr(s.ID)
	if err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	if err := await(ctx, n.raft.LeadershipTransferToServer(s.ID, addr)); err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	return nil
}

// RemovePeer takes a peer out of the cluster that is gone for good. With force it may be alive. It
// works on the leader.
func (n *Node) RemovePeer(ctx context.Context, id string, force bool) error {
	r, ok := n.current()
	if !ok {
		return n.refusal(n.notReady())
	}
	srv, in := n.server(id)
	no := func(reason, format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !in:
		return &fsm.Error{Code: fsm.NotFound, Reason: "PEER_NOT_FOUND", Message: fmt.Sprintf("peer %q is not in the Raft configuration: see holdfast operator raft list-peers", id)}
	case id == n.cfg.NodeID:
		return no("PEER_LEADS", "peer %q leads: hand the leadership over first (holdfast operator raft transfer-leadership)", id)
	}
	if !force && n.answers(ctx, id) {
		return no("PEER_ALIVE", "peer %q answers: stop it first, or it joins again (a peer that is to leave for good is stopped with leave_on_stop)", id)
	}
	if srv.Suffrage == raft.Voter {
		rest, following := (&reconciler{n: n, term: r.term}).followed(ctx, id)
		if following < rest/2+1 {
			return no("NO_QUORUM", "without peer %q %d voters are left, of which %d answer: that is no majority", id, rest, following)
		}
	}
	if err := n.remove(ctx, id); err != nil {
		return n.refusal(err)
	}
	n.log.Warn("peer removed by an operator", "id", id)
	return nil
}

// answers reports whether a peer can be asked how it is.
func (n *Node) answers(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	_, err := n.peerStats(ctx, id)
	return err == nil
}
