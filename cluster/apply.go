package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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
// command (also in Result.Err), otherwise an *OutcomeError.
func (n *Node) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	start := time.Now()
	applied := deliveryFrom(ctx).mark(cmd)
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
		return fsm.Result{}, &OutcomeError{Outcome: Unknown, Leader: leader, Err: errors.New(res.Err.Message)}
	case res.Err != nil:
		return res, res.Err
	}
	applied()
	return res, nil
}

func (cm *committer) apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, *OutcomeError) {
	if err := cm.n.terms.notReady(); err != nil {
		return fsm.Result{}, &OutcomeError{Outcome: NotApplied, Err: err}
	}
	cm.complete(cmd)
	data, err := proto.Marshal(cmd)
	if err != nil {
		return fsm.Result{}, &OutcomeError{Outcome: NotApplied, Err: fmt.Errorf("%w: %w", ErrEncoding, err)}
	}
	if len(data) > maxEntry {
		err := fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), maxEntry)
		return fsm.Result{}, &OutcomeError{Outcome: NotApplied, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, &OutcomeError{Outcome: NotApplied, Err: err}
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
		return fsm.Result{}, &OutcomeError{Outcome: NotApplied, Err: why}
	}
	select {
	case a := <-p.done: // answered at the same moment
		return a.result, a.err
	default:
		return fsm.Result{}, &OutcomeError{Outcome: Unknown, Err: why}
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
) (context.Context, func(fsm.Result, *OutcomeError)) {
	if cm.n.cfg.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(fsm.Result, *OutcomeError) {}
	}
	kind := "none"
	m := cmd.ProtoReflect()
	if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
		kind = string(op.Name())
	}
	ctx, span := cm.n.cfg.Tracer.Start(ctx, "raft commit",
		trace.WithAttributes(attribute.String("holdfast.command", kind)))
	return ctx, func(res fsm.Result, err *OutcomeError) {
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
