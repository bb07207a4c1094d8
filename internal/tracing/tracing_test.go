package tracing

import (
	"net/http"
	"reflect"
	"testing"
)

// Without a receiver, calls have no interceptor, no stats handler and no additional HTTP handler.
func TestOff(t *testing.T) {
	traces, err := (&Config{}).Open(t.Context(), "n1", "v1", nil)
	if err != nil || traces != nil {
		t.Fatalf("got %v, %v, want neither", traces, err)
	}
	if n := len(traces.Served()) + len(traces.Forwarded()); n != 0 || traces.Tracer() != nil {
		t.Errorf("got %d gRPC options and tracer %v, want none", n, traces.Tracer())
	}
	mux := http.NewServeMux()
	if got := traces.Handler(mux); reflect.ValueOf(got).Pointer() != reflect.ValueOf(mux).Pointer() {
		t.Errorf("HTTP: got handler %T, want the original one", got)
	}
}
