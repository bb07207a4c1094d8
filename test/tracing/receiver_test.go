package tracing

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
)

// span is the relevant part of a span.
type span struct {
	name, peer        string
	trace, id, parent string
	attrs             map[string]string
}

// receiver receives spans by OTLP over gRPC.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	url   string
	mu    sync.Mutex
	spans []span
	raw   []string // everything received, as text
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + ln.Addr().String()}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// Export records spans.
func (r *receiver) Export(
	_ context.Context, in *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, in.String())
	for _, of := range in.GetResourceSpans() {
		peer := attributes(of.GetResource().GetAttributes())["service.instance.id"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, span{name: s.GetName(), peer: peer, attrs: attributes(s.GetAttributes()),
					trace: hex.EncodeToString(s.GetTraceId()),
					id:    hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId())})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// attributes returns text attributes, and numbers other than zero as "set".
func attributes(kvs []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range kvs {
		all[kv.GetKey()] = kv.GetValue().GetStringValue()
		if kv.GetValue().GetIntValue() != 0 {
			all[kv.GetKey()] = "set"
		}
	}
	return all
}

// got returns the received spans.
func (r *receiver) got() (spans []span, raw []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]span(nil), r.spans...), append([]string(nil), r.raw...)
}
