package serve

import (
	"net/http"
	"reflect"
	"testing"
)

// Without a receiver a call goes the way that it went before there were traces: no interceptor, no
// handler of statistics, no other HTTP handler is in it.
func TestNoTracesNothingInTheWay(t *testing.T) {
	traces, err := (&tracingConfig{}).open(t.Context(), "n1", "v1", nil)
	if err != nil || traces != nil {
		t.Fatalf("got %v, %v, want neither", traces, err)
	}
	if n := len(traces.served()) + len(traces.forwarded()); n != 0 || traces.tracer() != nil {
		t.Errorf("%d options of gRPC and the tracer %v, want none", n, traces.tracer())
	}
	mux := http.NewServeMux()
	if got := traces.handler(mux); reflect.ValueOf(got).Pointer() != reflect.ValueOf(mux).Pointer() {
		t.Errorf("HTTP goes through %T, want the handler itself", got)
	}
}
