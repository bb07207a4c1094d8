package cluster

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// commitSpan begins the span of a commit within the caller's trace. It omits the contents
// of the command, which may be secret.
func (n *Node) commitSpan(
	ctx context.Context,
	cmd *internalv1.Command,
) (context.Context, func(fsm.Result, *OutcomeError)) {
	if n.cfg.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(fsm.Result, *OutcomeError) {}
	}
	kind := "none"
	m := cmd.ProtoReflect()
	if op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op")); op != nil {
		kind = string(op.Name())
	}
	ctx, span := n.cfg.Tracer.Start(ctx, "raft commit",
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
