package propose

import (
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Commands without traces need no allocations, neither without a receiver nor in a trace that is
// not sampled.
func TestAllocsOfCommitSpans(t *testing.T) {
	for name, cfg := range map[string]Config{"no receiver": {},
		"not sampled": {Tracer: noop.NewTracerProvider().Tracer("")}} {
		cmd := &internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{RunId: "run-1"}}}
		ctx := trace.ContextWithSpanContext(t.Context(),
			trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
		c := New(cfg, nil, nil)
		if got := testing.AllocsPerRun(1000, func() {
			_, done := c.commitSpan(ctx, cmd)
			done(fsm.Result{}, nil)
		}); got != 0 {
			t.Errorf("%s: got %v allocations for the span of a commit, want 0", name, got)
		}
	}
}

func BenchmarkCommitSpanOff(b *testing.B) {
	c, cmd, ctx := New(Config{}, nil, nil), &internalv1.Command{}, b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, done := c.commitSpan(ctx, cmd)
		done(fsm.Result{}, nil)
	}
}
