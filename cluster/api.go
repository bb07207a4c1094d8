package cluster

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Apply commits a command and returns its result. On a peer that does not lead or is not
// ready, the command is not applied. It sets the feature level and the time of the command if they
// are unset. In a call that a peer may deliver twice, the command is applied once: the second
// delivery returns the outcome of the first. The error is an *fsm.Error if the state refused the
// command (also in Result.Err), otherwise an *outcome.Error.
func (n *Peer) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	return n.committer.Apply(ctx, cmd)
}

// InterceptUnary is the interceptor with which any peer accepts any unary call. Calls that change
// something run on the leader. Reads run on this peer once its state is as new as the call requires
// (metadata holdfast-consistency and holdfast-min-index), or on the leader if this peer is
// behind. Every answer carries the index, the leader and the last contact with it
// (docs/concepts.md). Health and reflection pass unchanged. Internal calls are accepted
// only from peers. ClusterService always answers for the peer that received the call.
//
// Calls are answered before the caller's deadline, if need be with UNAVAILABLE, an
// ErrorInfo and a text that names the cause.
func (n *Peer) InterceptUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	return n.router.InterceptUnary(ctx, req, info, next)
}

// InterceptStream is the interceptor that resolves the consistency of read-only streams when they
// begin. Streams are served by the peer that accepted them; none is forwarded. A stream that is not
// stale ends with UNAVAILABLE if this peer loses contact with the cluster.
func (n *Peer) InterceptStream(
	srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	return n.router.InterceptStream(srv, ss, info, next)
}

// View returns the state with the context's Consistency, which defaults to linearizable.
// Behind the interceptors that was ensured before the handler, so View only returns the
// local state. Errors are *outcome.Errors.
func (n *Peer) View(ctx context.Context) (*fsm.View, error) {
	if err := n.reader.Prepare(ctx); err != nil {
		return nil, err
	}
	return n.fsm.View(), nil
}

// PauseTasks stops the leader's tasks, calls do, which may commit, and restarts the tasks
// from the resulting state. If do fails, the leadership is transferred, because tasks do
// not resume in the same term. If no other peer takes it, this peer begins another term. It
// works only on a leader that is ready.
func (n *Peer) PauseTasks(ctx context.Context, do func(context.Context) error) error {
	return n.terms.Pause(ctx, do)
}

// TransferTo hands the leadership to another voter and returns the id of the new leader. If
// to is empty, it chooses the most up-to-date voter that answers. It works only on the
// leader.
func (n *Peer) TransferTo(ctx context.Context, to string) (string, error) {
	return n.terms.TransferTo(ctx, to)
}

// RemovePeer removes a lost peer from the cluster. With force the peer may be alive. It
// works only on the leader.
func (n *Peer) RemovePeer(ctx context.Context, id string, force bool) error {
	return n.members.RemovePeer(ctx, id, force)
}

// AdmitPeer lets a peer join that was removed, or that waits for an admin. It works only on the
// leader.
func (n *Peer) AdmitPeer(ctx context.Context, id string) error { return n.members.AdmitPeer(ctx, id) }

// Autopilot returns the rules and the resulting state of the peers. It works only on the
// leader.
func (n *Peer) Autopilot(ctx context.Context) (*holdfastv1.Autopilot, error) {
	if _, err := n.leads(); err != nil {
		return nil, n.refusal(err)
	}
	st := n.Status(ctx)
	others, _ := n.raft.voters() // as many as remain without one of them
	return n.members.Autopilot(st, len(others)), nil
}

// Member returns an error if the caller of a connection is not a peer that is a member of the
// cluster now. Without TLS every process on loopback counts as one.
func (n *Peer) Member(ctx context.Context, c *peertls.Caller) error { return n.guard.Member(ctx, c) }

// ForwardedBy returns the peer that has forwarded a call. The header is trusted only if it
// names the calling peer itself, which with TLS is the peer in the certificate. Other
// metadata about the original caller may be trusted only if ok is true.
func (n *Peer) ForwardedBy(ctx context.Context) (id string, ok bool) { return n.guard.ForwardedBy(ctx) }

// Leader returns the leader that this peer knows, and whether it is this peer. ok is false
// if no leader is known.
func (n *Peer) Leader() (id string, self, ok bool) {
	_, l := n.raft.LeaderWithID()
	return string(l), string(l) == n.cfg.PeerID, l != ""
}

// Role returns this peer's Raft role: leader, follower, candidate or shutdown.
func (n *Peer) Role() string { return strings.ToLower(n.raft.State().String()) }

// GossipAddr returns this peer's gossip address, which other peers name in Join.
func (n *Peer) GossipAddr() string { return n.gossip.Addr() }

// RaftAddr returns the Raft address that this peer advertises.
func (n *Peer) RaftAddr() string { return n.stream.Addr().String() }

// Ready reports whether this peer leads and accepts commands.
func (n *Peer) Ready() bool {
	_, ok := n.terms.Current()
	return ok
}

// PeerConn returns the connection to another peer, for services between peers. The peer
// owns it: the caller must not close it.
func (n *Peer) PeerConn(id string) (grpc.ClientConnInterface, error) { return n.conns.Get(id) }

// refusal returns the error of a call that has changed nothing.
func (n *Peer) refusal(err error) error {
	leader, _, _ := n.Leader()
	return outcome.Refusal(leader, err)
}

// leads returns the term in which this peer leads and is ready, or the reason why it does not.
func (n *Peer) leads() (term uint64, err error) {
	if l, ok := n.terms.Current(); ok {
		return l.Term, nil
	}
	return 0, cmp.Or(n.terms.NotReady(), outcome.ErrNotLeader)
}
