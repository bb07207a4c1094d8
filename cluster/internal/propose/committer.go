// Package propose commits commands: it packs those of concurrent callers into shared Raft entries,
// and reports for each whether it was applied. It must not know why this peer leads, nor what a
// command means.
package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config holds what a Committer reports to, and its limits in time.
type Config struct {
	// Ready returns the reason why this peer accepts no commands now, or nil.
	Ready func() error
	// Leader returns the leader that this peer knows; may be empty.
	Leader func() string
	// Ended is closed when this peer has stopped, for the reason that Stopping returns.
	Ended    <-chan struct{}
	Stopping func() error
	// Applied counts a command and its outcome, and Batched the commands of an entry.
	Applied func(time.Duration, *outcome.Error)
	Batched func(commands int)
	// Tracer creates spans of commits within the traces of callers. If it is nil, there are none.
	Tracer trace.Tracer
	// Began is the origin of this peer's monotonic clock.
	Began time.Time
}

// State is the state machine, as far as a command depends on it before it is committed.
type State interface {
	CheckLimits(cmd *internalv1.Command) *fsm.Error
	LevelOf(cmd *internalv1.Command) uint32
}

// Log starts the commit of an entry.
type Log interface {
	Apply(cmd []byte, timeout time.Duration) raft.ApplyFuture
}

// Committer commits commands: those of callers through the batcher, and the leader's own.
type Committer struct {
	cfg   Config
	log   Log
	state State
	batch *batcher
}

// New returns a committer of commands to a log. Run proposes them.
func New(cfg Config, log Log, state State) *Committer {
	return &Committer{cfg: cfg, log: log, state: state, batch: newBatcher(log, cfg.Ready, cfg.Batched)}
}

// Run proposes commands until ctx ends.
func (cm *Committer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range entriesInFlight {
		wg.Go(func() { cm.batch.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Waiting returns how many commands wait for a place in an entry.
func (cm *Committer) Waiting() int { return cm.batch.waiting() }

// Apply commits a command and returns its result. On a peer that does not lead or is not
// ready, the command is not applied. It sets the feature level and the time of the command if they
// are unset. In a call that a peer may deliver twice, the command is applied once: the second
// delivery returns the outcome of the first. The error is an *fsm.Error if the state refused the
// command (also in Result.Err), otherwise an *outcome.Error.
func (cm *Committer) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	start := time.Now()
	applied := call.DeliveryFrom(ctx).Mark(cmd)
	ctx, done := cm.commitSpan(ctx, cmd)
	res, err := cm.apply(ctx, cmd)
	done(res, err)
	cm.cfg.Applied(time.Since(start), err)
	if err != nil {
		own := *err // the commands of one entry share the error
		own.Leader = cm.cfg.Leader()
		return fsm.Result{}, &own
	}
	switch {
	case res.Err != nil && res.Err.Reason == fsm.ReasonForgotten:
		return fsm.Result{}, &outcome.Error{Outcome: outcome.Unknown, Leader: cm.cfg.Leader(),
			Err: errors.New(res.Err.Message)}
	case res.Err != nil:
		return res, res.Err
	}
	applied()
	return res, nil
}

func (cm *Committer) apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, *outcome.Error) {
	if err := cm.cfg.Ready(); err != nil {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
	}
	if refused := cm.state.CheckLimits(cmd); refused != nil {
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
	case <-cm.cfg.Ended:
	}
	why := cm.cfg.Stopping()
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

// CommitAll commits commands as one entry, all or none. It is for the leader's own
// commands, which do not wait until the leader is ready.
func (cm *Committer) CommitAll(ctx context.Context, cmds ...*internalv1.Command) ([]fsm.Result, error) {
	for _, c := range cmds {
		cm.complete(c)
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: cmds})
	if err != nil {
		return nil, fmt.Errorf("encode commands: %w", err)
	}
	results, oerr := propose(cm.log, data, len(cmds))(ctx)
	if oerr != nil {
		return nil, oerr
	}
	return results, nil
}

// Commit commits one of the leader's own commands.
func (cm *Committer) Commit(ctx context.Context, cmd *internalv1.Command) error {
	results, err := cm.CommitAll(ctx, cmd)
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
func (cm *Committer) complete(c *internalv1.Command) {
	if c.GetFeatureLevel() == 0 {
		c.FeatureLevel = cm.state.LevelOf(c)
	}
	if c.GetTime() == nil {
		c.Time = timestamppb.Now()
	}
	c.UptimeMs = cm.Uptime()
}

// Uptime returns this process's monotonic clock in milliseconds, for a command.
func (cm *Committer) Uptime() int64 {
	return max(1, time.Since(cm.cfg.Began).Milliseconds())
}

// commitSpan begins the span of a commit within the caller's trace. It omits the contents
// of the command, which may be secret.
func (cm *Committer) commitSpan(
	ctx context.Context,
	cmd *internalv1.Command,
) (context.Context, func(fsm.Result, *outcome.Error)) {
	if cm.cfg.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(fsm.Result, *outcome.Error) {}
	}
	kind := "none"
	m := cmd.ProtoReflect()
	if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
		kind = string(op.Name())
	}
	ctx, span := cm.cfg.Tracer.Start(ctx, "raft commit",
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
