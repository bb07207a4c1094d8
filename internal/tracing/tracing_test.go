package tracing

import (
	"net/http"
	"reflect"
	"testing"
)

// Without a receiver, calls have no interceptor, no statistics handler and no other HTTP handler.
func TestOff(t *testing.T) {
	traces, err := (&Config{}).Open(t.Context(), "n1", "v1", nil)
	if err != nil || traces != nil {
		t.Fatalf("got %v, %v, want neither", traces, err)
	}
	if n := len(traces.Served()) + len(traces.Forwarded()); n != 0 || traces.Tracer() != nil {
		t.Errorf("%d options of gRPC and the tracer %v, want none", n, traces.Tracer())
	}
	mux := http.NewServeMux()
	if got := traces.Handler(mux); reflect.ValueOf(got).Pointer() != reflect.ValueOf(mux).Pointer() {
		t.Errorf("HTTP goes through %T, want the handler itself", got)
	}
}
