package connlimit_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-metal/holdfast/server/connlimit"
)

// target is a server that limits resets, and a call of another caller.
type target struct {
	addr string
	call func(context.Context) error
}

// targets returns a server of each kind.
func targets(t *testing.T, l *connlimit.Limiter) map[string]target {
	t.Helper()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	web.EnableHTTP2 = true
	if err := l.HTTP2(web.Config); err != nil {
		t.Fatal(err)
	}
	web.StartTLS()
	t.Cleanup(web.Close)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := grpc.NewServer(grpc.Creds(l.Credentials(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0]))),
		grpc.MaxConcurrentStreams(8192))
	go func() { _ = calls.Serve(ln) }() // ends with Stop
	t.Cleanup(calls.Stop)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(
		credentials.NewClientTLSFromCert(roots, "example.com")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]target{
		"HTTP": {web.Listener.Addr().String(), func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
			if err != nil {
				return err
			}
			res, err := web.Client().Do(r)
			if err != nil {
				return err
			}
			return res.Body.Close()
		}},
		"gRPC": {ln.Addr().String(), func(ctx context.Context) error {
			err := conn.Invoke(ctx, "/no.Service/Method", &emptypb.Empty{}, &emptypb.Empty{})
			if status.Code(err) == codes.Unimplemented {
				return nil
			}
			return err
		}},
	}
}

// caller opens streams on a connection of its own.
type caller struct {
	*http2.Framer
	next  uint32
	block []byte // a request, encoded
	pong  chan struct{}
	ended chan struct{}
}

func newCaller(t *testing.T, addr string) *caller {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/no.Service/Method"},
		{":authority", "example.com"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	c := &caller{Framer: http2.NewFramer(conn, conn), next: 1, block: block.Bytes(), pong: make(chan struct{}, 1),
		ended: make(chan struct{})}
	c.AllowIllegalWrites = true
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		defer close(c.ended)
		for {
			f, err := c.ReadFrame()
			if _, of := errors.AsType[http2.StreamError](err); err != nil && !of {
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
				c.pong <- struct{}{}
			}
		}
	}()
	return c
}

// open opens a stream, and provokes its reset.
func (c *caller) open(reset func(c *caller, stream uint32) error) error {
	stream := c.next
	c.next += 2
	request := http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block, EndHeaders: true}
	if err := c.WriteHeaders(request); err != nil {
		return err
	}
	return reset(c, stream)
}

// TestRapidResets sends 10,000 resets, and provokes as many of the server. The connection ends, and
// other callers are served in the meantime.
func TestRapidResets(t *testing.T) {
	for name, reset := range map[string]func(*caller, uint32) error{
		"by the caller": func(c *caller, stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) },
		"by the server": func(c *caller, stream uint32) error { return c.WriteWindowUpdate(stream, 0) },
	} {
		for _, kind := range []string{"HTTP", "gRPC"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				reg := prometheus.NewRegistry()
				to := targets(t, connlimit.New(connlimit.Config{Total: 100, PerAddress: 100, Registerer: reg}))[kind]
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				c := newCaller(t, to.addr)
				for i := range 10_000 {
					if c.open(reset) != nil {
						break // the connection has ended
					}
					if i%1000 == 0 {
						if err := to.call(ctx); err != nil {
							t.Fatalf("another caller after %d resets: %v", i, err)
						}
					}
				}
				select {
				case <-c.ended:
				case <-ctx.Done():
					t.Fatal("the connection is still open")
				}
				if err := to.call(ctx); err != nil {
					t.Errorf("another caller after the end: %v", err)
				}
				if got := closedFor(t, reg, "resets"); got != 1 {
					t.Errorf("connections closed for resets: got %g, want 1", got)
				}
			})
		}
	}
}

// TestSomeResets checks that a caller may reset many streams. The server may answer each with a
// reset of its own.
func TestSomeResets(t *testing.T) {
	for kind, most := range map[string]int{"HTTP": 400, "gRPC": 4000} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			to := targets(t, connlimit.New(connlimit.Config{Total: 100, PerAddress: 100}))[kind]
			c := newCaller(t, to.addr)
			for i := range most {
				err := c.open(func(c *caller, stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) })
				if err != nil {
					t.Fatalf("reset %d: %v", i, err)
				}
			}
			if err := c.WritePing(false, [8]byte{1}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c.pong:
			case <-c.ended:
				t.Error("the connection has ended")
			case <-time.After(time.Minute):
				t.Error("got no answer")
			}
		})
	}
}

func closedFor(t *testing.T, reg *prometheus.Registry, reason string) (n float64) {
	t.Helper()
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "holdfast_connections_closed_total" && l.GetValue() == reason {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
