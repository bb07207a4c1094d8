package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// committer commits commands: those of callers through the batcher, and the leader's own.
type committer struct {
	n *Node

	batch *batcher
	began time.Time // the origin of this peer's monotonic clock
}

// Apply commits a command and returns its result. On a peer that does not lead or is not
// ready, the command is not applied. It sets the feature level and the time of the command if they
// are unset. In a call that a peer may deliver twice, the command is applied once: the second
// delivery returns the outcome of the first. The error is an *fsm.Error if the state refused the
// command (also in Result.Err), otherwise an *outcome.Error.
func (n *Node) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	start := time.Now()
	applied := call.DeliveryFrom(ctx).Mark(cmd)
	ctx, done := n.committer.commitSpan(ctx, cmd)
	res, err := n.committer.apply(ctx, cmd)
	done(res, err)
	n.metrics.applied(time.Since(start), err)
	if err != nil {
		own := *err // the commands of one entry share the error
		own.Leader, _, _ = n.Leader()
		return fsm.Result{}, &own
	}
	switch {
	case res.Err != nil && res.Err.Reason == fsm.ReasonForgotten:
		leader, _, _ := n.Leader()
		return fsm.Result{}, &outcome.Error{Outcome: outcome.Unknown, Leader: leader, Err: errors.New(res.Err.Message)}
	case res.Err != nil:
		return res, res.Err
	}
	applied()
	return res, nil
}

func (cm *committer) apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, *outcome.Error) {
	if err := cm.n.terms.notReady(); err != nil {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
	}
	if refused := cm.n.fsm.CheckLimits(cmd); refused != nil {
		return fsm.Result{Err: refused}, nil
	}
	cm.complete(cmd)
	data, err := proto.Marshal(cmd)
	if err != nil {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: fmt.Errorf("%w: %w", outcome.ErrEncoding, err)}
	}
	if len(data) > maxEntry {
		err := fmt.Errorf("%w: %d bytes, at most %d", outcome.ErrTooLarge, len(data), maxEntry)
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
	}
	p := cm.batch.add(data)
	select {
	case a := <-p.done:
		return a.result, a.err
	case <-ctx.Done():
	case <-cm.n.ended:
	}
	why := cm.n.stopping()
	if ctx.Err() != nil {
		why = fmt.Errorf("wait for the commit: %w", ctx.Err())
	}
	if p.state.CompareAndSwap(queued, abandoned) {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: why}
	}
	select {
	case a := <-p.done: // answered at the same moment
		return a.result, a.err
	default:
		return fsm.Result{}, &outcome.Error{Outcome: outcome.Unknown, Err: why}
	}
}

// commitAll commits commands as one entry, all or none. It is for the leader's own
// commands, which do not wait until the leader is ready.
func (cm *committer) commitAll(ctx context.Context, cmds ...*internalv1.Command) ([]fsm.Result, error) {
	for _, c := range cmds {
		cm.complete(c)
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: cmds})
	if err != nil {
		return nil, fmt.Errorf("encode commands: %w", err)
	}
	results, oerr := propose(cm.n.raft, data, len(cmds))(ctx)
	if oerr != nil {
		return nil, oerr
	}
	return results, nil
}

// commit commits one of the leader's own commands.
func (cm *committer) commit(ctx context.Context, cmd *internalv1.Command) error {
	results, err := cm.commitAll(ctx, cmd)
	if err != nil {
		return err
	}
	if e := results[0].Err; e != nil {
		return e
	}
	return nil
}

// complete sets the feature level and the wall clock of a command that has none, and this peer's
// monotonic clock in every command. Without that the FSM would follow the wall clock, even a wrong
// one.
func (cm *committer) complete(c *internalv1.Command) {
	if c.GetFeatureLevel() == 0 {
		c.FeatureLevel = cm.n.fsm.LevelOf(c)
	}
	if c.GetTime() == nil {
		c.Time = timestamppb.Now()
	}
	c.UptimeMs = cm.uptime()
}

// uptime returns this process's monotonic clock in milliseconds, for a command.
func (cm *committer) uptime() int64 {
	return max(1, time.Since(cm.began).Milliseconds())
}

// commitSpan begins the span of a commit within the caller's trace. It omits the contents
// of the command, which may be secret.
func (cm *committer) commitSpan(
	ctx context.Context,
	cmd *internalv1.Command,
) (context.Context, func(fsm.Result, *outcome.Error)) {
	if cm.n.cfg.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(fsm.Result, *outcome.Error) {}
	}
	kind := "none"
	m := cmd.ProtoReflect()
	if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
		kind = string(op.Name())
	}
	ctx, span := cm.n.cfg.Tracer.Start(ctx, "raft commit",
		trace.WithAttributes(attribute.String("holdfast.command", kind)))
	return ctx, func(res fsm.Result, err *outcome.Error) {
		switch {
		case err != nil:
			span.SetStatus(codes.Error, err.Outcome.String())
		case res.Err != nil:
			span.SetAttributes(attribute.String("holdfast.refused", res.Err.Reason))
		}
		span.SetAttributes(attribute.Int64("holdfast.index", int64(res.Index)))
		span.End()
	}
}

const (
	// maxEntry bounds the bytes of one Raft entry, and so of one command.
	maxEntry = 512 << 10
	// maxBatch bounds the commands of one Raft entry.
	maxBatch = 1024
	// entriesInFlight is how many entries are proposed at once. The next ones fill up while
	// these are committed.
	entriesInFlight = 2
	// enqueueTimeout bounds how long Raft may take to accept an entry.
	enqueueTimeout = 10 * time.Second
	// entryField is the field of internalv1.Entry that holds the commands.
	entryField = protowire.Number(1)
)

// States of a proposal.
const (
	queued    int32 = iota // only in the batcher's queue
	taken                  // possibly in Raft's log
	abandoned              // canceled by its caller before it was taken
)

// proposal is one command on its way to the log.
type proposal struct {
	data  []byte // an encoded internalv1.Command
	state atomic.Int32
	done  chan answer // buffered
}

type answer struct {
	result fsm.Result
	err    *outcome.Error
}

// proposer starts the commit of an entry.
type proposer interface {
	Apply(cmd []byte, timeout time.Duration) raft.ApplyFuture
}

// batcher packs concurrent commands into shared Raft entries, so that one disk write each
// does not limit throughput. It never waits for more commands. A single command is proposed
// at once; others gather while entries are in flight.
type batcher struct {
	raft  proposer
	ready func() error // returns the reason why nothing may be proposed now
	size  func(commands int)

	turn  sync.Mutex // held from taking commands until Raft has them, so that entries stay in order
	mu    sync.Mutex // guards queue
	queue []*proposal
	wake  chan struct{}
}

func newBatcher(r proposer, ready func() error, size func(int)) *batcher {
	return &batcher{raft: r, ready: ready, size: size, wake: make(chan struct{}, entriesInFlight)}
}

// add queues a command.
func (b *batcher) add(data []byte) *proposal {
	p := &proposal{data: data, done: make(chan answer, 1)}
	b.mu.Lock()
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // every worker is awake already
	}
	return p
}

// waiting reports how many commands are queued.
func (b *batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// run proposes until ctx ends. entriesInFlight of them run at once.
func (b *batcher) run(ctx context.Context) {
	for {
		if batch, wait := b.propose(); len(batch) > 0 {
			results, err := wait(ctx)
			b.answer(batch, results, err)
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
}

// take removes commands from the queue and returns them with their encoded entry.
func (b *batcher) take() (batch []*proposal, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(batch) == 0 && len(b.queue) > 0 {
		n, length := b.fits()
		batch, data = make([]*proposal, 0, n), make([]byte, 0, length) // capacity for all; abandoned ones are skipped
		for _, p := range b.queue[:n] {
			if p.state.CompareAndSwap(queued, taken) {
				batch = append(batch, p)
				data = protowire.AppendBytes(protowire.AppendTag(data, entryField, protowire.BytesType), p.data)
			}
		}
		clear(b.queue[:n])
		if b.queue = b.queue[n:]; len(b.queue) == 0 {
			b.queue = nil
		}
	}
	return batch, data
}

// fits returns how many queued commands fit into one entry, and its size. The lock must be
// held.
func (b *batcher) fits() (n, length int) {
	for _, p := range b.queue {
		size := protowire.SizeTag(entryField) + protowire.SizeBytes(len(p.data))
		if n == maxBatch || n > 0 && length+size > maxEntry {
			break
		}
		n, length = n+1, length+size
	}
	return n, length
}

// results waits for the outcome of an entry, and returns one result per command.
type results func(ctx context.Context) ([]fsm.Result, *outcome.Error)

// propose passes the next entry to Raft.
func (b *batcher) propose() ([]*proposal, results) {
	b.turn.Lock()
	defer b.turn.Unlock()
	batch, data := b.take()
	if len(batch) == 0 {
		return nil, nil
	}
	b.size(len(batch))
	if err := b.ready(); err != nil {
		return batch, func(context.Context) ([]fsm.Result, *outcome.Error) {
			return nil, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
		}
	}
	return batch, propose(b.raft, data, len(batch))
}

func (b *batcher) answer(batch []*proposal, results []fsm.Result, err *outcome.Error) {
	for i, p := range batch {
		a := answer{err: err}
		if err == nil {
			a.result = results[i]
		}
		p.done <- a
	}
}

// propose passes an entry to Raft.
func propose(r proposer, data []byte, commands int) results {
	future := r.Apply(data, enqueueTimeout)
	return func(ctx context.Context) ([]fsm.Result, *outcome.Error) {
		if err := wait.For(ctx, future); err != nil {
			// The future's index may be read only after it has answered. Until then Raft
			// writes it.
			waiting := errors.Is(err, wait.ErrStopped)
			return nil, &outcome.Error{
				Outcome: raftOutcome(err, waiting || future.Index() > 0),
				Err:     fmt.Errorf("commit: %w", err),
			}
		}
		results, _ := future.Response().([]fsm.Result)
		if len(results) != commands {
			return nil, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("this peer's state machine has stopped")}
		}
		return results, nil
	}
}

// raftOutcome returns the outcome for an error of a Raft future. dispatched is true if the
// entry has an index, so its bytes may be on a disk.
func raftOutcome(err error, dispatched bool) outcome.Kind {
	switch {
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return outcome.NotApplied
	case errors.Is(err, raft.ErrRaftShutdown) && !dispatched:
		return outcome.NotApplied
	}
	// ErrLeadershipLost, ErrRaftShutdown of a dispatched entry, an error of the log store,
	// or a timeout.
	return outcome.Unknown
}

// refusal returns the error of a call that has changed nothing.
func (n *Node) refusal(err error) error {
	leader, _, _ := n.Leader()
	return outcome.Refusal(leader, err)
}
