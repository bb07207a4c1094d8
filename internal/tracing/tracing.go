// Package tracing creates OpenTelemetry spans of calls, commits and attempts, and sends them over
// OTLP. It knows no resource of Holdfast. Without a URL it adds nothing to any call.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// tracerName is the instrumentation scope of our own spans.
const tracerName = "github.com/holdfast-metal/holdfast"

// flushTimeout bounds the time to send the last spans when a peer stops.
const flushTimeout = 2 * time.Second

// Config configures traces.
type Config struct {
	TracingURL   string  // of the OTLP receiver, over gRPC; empty: no traces
	TracingRatio float64 // share of the traces begun here that are sent, from 0 to 1
}

// Flags adds the flags of c to a flag set.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.TracingURL, "tracing-url", "",
		"send traces to this `URL` with OTLP over gRPC, such as http://127.0.0.1:4317 or https://…; empty: none")
	fs.Float64Var(&c.TracingRatio, "tracing-ratio", 1,
		"send this `share` of the traces that begin at this peer, from 0 to 1; other callers decide for their own traces")
}

// Check returns an error if a flag has an invalid value.
func (c *Config) Check() error {
	if !(c.TracingRatio >= 0 && c.TracingRatio <= 1) { // nor NaN
		return fmt.Errorf("set --tracing-ratio to a share from 0 to 1, not %v", c.TracingRatio)
	}
	if c.TracingURL == "" {
		return nil
	}
	u, err := url.Parse(c.TracingURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("read --tracing-url: want http://host:port or https://host:port, without a user; headers " +
			"with tokens go into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// Tracing creates spans and sends them. A nil Tracing creates none.
type Tracing struct{ provider *sdktrace.TracerProvider }

// Open starts tracing and returns nil if it is off. It does not wait for the receiver: an
// unreachable receiver costs spans, never a call. Spans carry the name of the peer and its version.
func (c *Config) Open(ctx context.Context, peer, version string, log *slog.Logger) (*Tracing, error) {
	if c.TracingURL == "" {
		return nil, nil
	}
	out, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(c.TracingURL))
	if err != nil {
		return nil, fmt.Errorf("open --tracing-url: %w", err)
	}
	// The SDK reports unsent spans only through this handler, which is process-wide.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be sent", "error", err) }))
	about := resource.NewSchemaless(attribute.String("service.name", "holdfast"),
		attribute.String("service.instance.id", peer), attribute.String("service.version", version))
	return &Tracing{sdktrace.NewTracerProvider(sdktrace.WithBatcher(out), sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.TracingRatio))))}, nil
}

// Close sends the remaining spans.
func (t *Tracing) Close(log *slog.Logger) {
	if t == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), flushTimeout)
	defer stop()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("the last traces were not sent", "error", err)
	}
}

// Tracer returns the tracer of commits and attempts; nil for none.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(tracerName)
}

func (t *Tracing) options() []otelgrpc.Option {
	return []otelgrpc.Option{otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(isTraced)}
}

// isTraced reports whether a call gets a span. The constant calls of peers, probes and agents do
// not.
func isTraced(call *stats.RPCTagInfo) bool {
	for _, often := range []string{"/grpc.health.", "/grpc.reflection.", "/holdfast.internal.",
		"/holdfast.v1.HeartbeatService/"} {
		if strings.HasPrefix(call.FullMethodName, often) {
			return false
		}
	}
	return true
}

// Served returns the handler that creates spans of gRPC calls.
func (t *Tracing) Served() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(t.options()...))}
}

// Forwarded returns the handler that creates spans of calls to other peers and propagates the
// trace.
func (t *Tracing) Forwarded() []grpc.DialOption {
	if t == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(t.options()...))}
}

// Handler creates spans of HTTP requests, except scrapes and probes. The spans contain no
// queries and no headers.
func (t *Tracing) Handler(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	filter := func(r *http.Request) bool {
		path := r.URL.Path
		return strings.HasPrefix(path, "/api/") && !strings.HasSuffix(path, "/keepalive") &&
			!strings.HasSuffix(path, "/heartbeat")
	}
	return otelhttp.NewHandler(h, "HTTP", otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithFilter(filter))
}
