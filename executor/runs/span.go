package runs

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// traced starts the trace of an attempt. The two contexts that it returns carry its span,
// so that all commits of the attempt are child spans. A run outlives the call that
// started it, and leaders too, so each attempt has its own trace, which can be found by
// the run id in its attributes. The trace contains no errors of hardware: they are in the
// run log.
func (a *attempt) traced(ctx context.Context) (term, life context.Context, done func()) {
	tracer := a.runner.cfg.Tracer
	if tracer == nil {
		return ctx, a.Life, func() {}
	}
	_, span := tracer.Start(ctx, "attempt "+a.Kind, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("holdfast.run", a.Op.RunID),
		attribute.String("holdfast.machine", a.Machine.GetMachineId()),
		attribute.String("holdfast.step", a.Step.GetName()),
		attribute.Int("holdfast.attempt", int(a.Op.Attempt)),
		attribute.Bool("holdfast.adopted", a.adopted != nil),
	))
	return trace.ContextWithSpan(ctx, span), trace.ContextWithSpan(a.Life, span), func() { span.End() }
}

// endSpan records the outcome in the attempt's span.
func (a *attempt) endSpan(ctx context.Context, outcome holdfastv1.Attempt_Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("holdfast.outcome", outcome.String()))
	if outcome != holdfastv1.Attempt_SUCCEEDED {
		span.SetStatus(codes.Error, outcome.String())
	}
}
