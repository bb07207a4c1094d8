package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/fsm"
)

// Cluster administration on the leader.

// pauseRequest asks lead to run do while this peer leads and its tasks are stopped.
type pauseRequest struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error // buffered
}

// Interlude stops the leader's tasks, calls do, which may commit, and restarts the tasks
// from the resulting state. If do fails, the leadership is transferred, because tasks do
// not resume in the same term. If no other peer takes it, this peer begins another term. It
// works only on a leader that is ready.
func (n *Node) Interlude(ctx context.Context, do func(context.Context) error) error {
	i := &pauseRequest{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case n.terms.pauseRequests <- i:
	case <-ctx.Done():
		return n.refusal(fmt.Errorf("wait for the leader's tasks: %w", ctx.Err()))
	case <-n.ended:
		return n.refusal(readindex.ErrStopping)
	}
	select {
	case err := <-i.done:
		return err
	case <-ctx.Done():
		return &OutcomeError{Outcome: Unknown, Err: fmt.Errorf("wait for the leader's tasks: %w", ctx.Err())}
	}
}

// newLeaderWait bounds how long TransferTo waits for the new leader.
const newLeaderWait = 3 * time.Second

// TransferTo hands the leadership to another voter and returns the id of the new leader. If
// to is empty, it chooses the most up-to-date voter that answers. It works only on the
// leader.
func (n *Node) TransferTo(ctx context.Context, to string) (string, error) {
	if _, ok := n.terms.current(); !ok {
		return "", n.refusal(n.terms.notReady())
	}
	if err := n.terms.transferTo(ctx, to); err != nil {
		if _, ok := n.terms.current(); ok {
			return "", &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_TRANSFERRED", Message: err.Error()}
		}
		return "", &OutcomeError{Outcome: Unknown, Err: err}
	}
	if id, ok := n.terms.awaitSuccessor(ctx, newLeaderWait); ok {
		return id, nil
	}
	return "", &OutcomeError{
		Outcome: Unknown,
		Err:     errors.New("the leadership was handed over, but no new leader is known yet"),
	}
}

// RemovePeer removes a lost peer from the cluster. With force the peer may be alive. It
// works only on the leader.
func (n *Node) RemovePeer(ctx context.Context, id string, force bool) error {
	r, ok := n.terms.current()
	if !ok {
		return n.refusal(n.terms.notReady())
	}
	srv, in := n.server(id)
	no := func(reason, format string, args ...any) error {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !in:
		return &fsm.Error{
			Code: fsm.NotFound, Reason: "PEER_NOT_FOUND",
			Message: fmt.Sprintf("peer %q is not in the Raft configuration: see holdfast operator raft list-peers", id),
		}
	case id == n.cfg.NodeID:
		return no("PEER_LEADS", "peer %q leads: "+
			"hand the leadership over first (holdfast operator raft transfer-leadership)", id)
	}
	answers := n.membership.answers(ctx, id)
	if answers && !force {
		return no("PEER_ALIVE", "peer %q answers: "+
			"stop it first, or it joins again (to make a peer leave, stop it with leave_on_stop)", id)
	}
	if srv.Suffrage == raft.Voter {
		rest, following := (&reconciler{n: n, term: r.term}).followed(ctx, id)
		if following < rest/2+1 {
			return no("NO_QUORUM", "removing peer %q leaves a cluster of %d voters, of which %d answer: not a majority",
				id, rest, following)
		}
	}
	if err := n.membership.remove(ctx, id, answers); err != nil {
		return n.refusal(err)
	}
	n.log.Warn("peer removed by an operator", "id", id)
	return nil
}
