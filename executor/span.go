package executor

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// traced begins the trace of an attempt: its commits are spans below it, those on behalf of the
// term and those within the run's life. A run outlives the call that has asked for it, and leaders
// too: so each attempt is a trace of its own, found by the attribute with the run's id. What it
// says is recorded for readers anyway; errors of hardware are not in it, they are in the run's log.
func (a *attempt) traced(ctx context.Context) (term, life context.Context, done func()) {
	if a.cfg.Tracer == nil {
		return ctx, a.live, func() {}
	}
	_, span := a.cfg.Tracer.Start(ctx, "attempt "+a.kind, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("holdfast.run", a.id), attribute.String("holdfast.machine", a.machine.GetMachineId()), attribute.String("holdfast.step", a.step.GetName()),
		attribute.Int("holdfast.attempt", int(a.number)), attribute.Bool("holdfast.taken_over", a.adopted != nil)))
	return trace.ContextWithSpan(ctx, span), trace.ContextWithSpan(a.live, span), func() { span.End() }
}

// tell puts the outcome into the attempt's span.
func (a *attempt) tell(ctx context.Context, outcome holdfastv1.Attempt_Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("holdfast.outcome", outcome.String()))
	if outcome != holdfastv1.Attempt_SUCCEEDED {
		span.SetStatus(codes.Error, outcome.String())
	}
}
