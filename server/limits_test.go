package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// listen serves gRPC or HTTP on a real socket until the test ends, and returns its
// address.
func listen(t *testing.T, serve func(net.Listener) error, stop func()) string {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = serve(l)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return l.Addr().String()
}

// closed waits until the other side has closed a connection, and reports whether it did.
func closed(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, c)
	ne, ok := err.(net.Error) //nolint:errorlint // what a socket gives is not wrapped
	return !ok || !ne.Timeout()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c := must[net.Conn](t)(net.Dial("tcp", addr))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSlowLorisHTTP checks that clients that send headers byte by byte are disconnected,
// and that others are served meanwhile.
func TestSlowLorisHTTP(t *testing.T) {
	n := nodetest.New()
	s := New(Config{}, n, n.Peer, testProviders())
	srv := s.HTTPServer(s.HTTPHandler())
	// TestHTTPLimits checks the default. Here, other callers must succeed on a busy machine.
	srv.ReadHeaderTimeout = 3 * time.Second
	addr := listen(t, srv.Serve, func() { _ = srv.Close() })
	var slow []net.Conn
	for i := range 100 {
		c := dial(t, addr)
		if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nX-%d: ", i); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	resp, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("others got %d", resp.StatusCode)
	}
	for i, c := range slow {
		if !closed(t, c, 30*time.Second) {
			t.Fatalf("connection %d is still open", i)
		}
	}
}

func TestOversizedHTTPHeader(t *testing.T) {
	n := nodetest.New()
	s := New(Config{}, n, n.Peer, testProviders())
	srv := s.HTTPServer(s.HTTPHandler())
	addr := listen(t, srv.Serve, func() { _ = srv.Close() })
	c := dial(t, addr)
	go func() {
		// the server need not read all of it
		_, _ = fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("a", 1<<20))
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// plainGRPC serves the public API without TLS.
func plainGRPC(t *testing.T, cfg Config, more ...grpc.ServerOption) (string, *clients) {
	t.Helper()
	n := nodetest.New()
	s := New(cfg, n, n.Peer, testProviders())
	g := grpc.NewServer(append(s.GRPCOptions(), more...)...)
	s.Register(g)
	addr := listen(t, g.Serve, func() {
		s.Drain()
		g.Stop()
	})
	conn := must[*grpc.ClientConn](t)(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))
	t.Cleanup(func() { _ = conn.Close() })
	return addr, &clients{holdfastv1.NewMachineServiceClient(conn), holdfastv1.NewPlanServiceClient(conn),
		holdfastv1.NewRunServiceClient(conn), holdfastv1.NewClusterServiceClient(conn), conn}
}

// TestSlowLorisGRPC checks that a connection without a complete handshake is closed.
func TestSlowLorisGRPC(t *testing.T) {
	addr, c := plainGRPC(t, Config{}, grpc.ConnectionTimeout(3*time.Second))
	silent, half := dial(t, addr), dial(t, addr)
	if _, err := io.WriteString(half, http2.ClientPreface[:10]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetClusterStatus(testCtx(t), &holdfastv1.GetClusterStatusRequest{}); err != nil {
		t.Errorf("others got %v", err)
	}
	if !closed(t, silent, 30*time.Second) || !closed(t, half, 30*time.Second) {
		t.Error("a connection that says nothing stays")
	}
}

func TestOversizedGRPC(t *testing.T) {
	addr, c := plainGRPC(t, Config{})
	_, err := c.GetMachine(testCtx(t), &holdfastv1.GetMachineRequest{MachineId: strings.Repeat("x", maxRequestSize+1)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of 4 MiB and more: got %v", err)
	}
	// Clients learn the limit and keep it; the server must enforce it too.
	ctx := metadata.AppendToOutgoingContext(testCtx(t), "x", strings.Repeat("x", 2*maxMetadata))
	if _, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m"}); err == nil ||
		status.Code(err) == codes.NotFound {
		t.Errorf("metadata of 128 KiB: got %v", err)
	}
	if _, err := c.GetClusterStatus(testCtx(t), &holdfastv1.GetClusterStatusRequest{}); err != nil {
		t.Errorf("the connection is of no more use: %v", err)
	}

	raw := dial(t, addr)
	fr := http2.NewFramer(raw, raw)
	if _, err := io.WriteString(raw, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	// A frame of 16 MiB: the 9 bytes of its header suffice to close the connection.
	if _, err := raw.Write([]byte{0xff, 0xff, 0xff, byte(http2.FrameData), 0, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	if !closed(t, raw, 10*time.Second) {
		t.Error("a connection with an oversized frame stays")
	}
}

// TestPingFlood checks that a client that pings too often is disconnected.
func TestPingFlood(t *testing.T) {
	addr, _ := plainGRPC(t, Config{})
	raw := dial(t, addr)
	fr := http2.NewFramer(raw, raw)
	if _, err := io.WriteString(raw, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := fr.WritePing(false, [8]byte{}); err != nil {
			break
		}
	}
	if err := raw.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("no word before the end: %v", err)
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			if g.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("got %v", g.ErrCode)
			}
			return
		}
	}
}

// TestRateLimitGRPC checks that a caller above its rate is refused with a retry delay.
// Others must not be affected, nor good credentials from an address that also sends bad
// ones.
func TestRateLimitGRPC(t *testing.T) {
	p := secure(t, auth.Config{RatePerSecond: 10})
	greedy := p.connect(t, kind{token: &holdfastv1.Token{Name: "greedy", Role: holdfastv1.Role_VIEWER}})
	modest := p.connect(t, kind{token: &holdfastv1.Token{Name: "modest", Role: holdfastv1.Role_VIEWER}})
	bad := p.connect(t, kind{})
	get := func(c *caller) error {
		_, err := holdfastv1.NewMachineServiceClient(c.conn).GetMachine(c.ctx(t),
			&holdfastv1.GetMachineRequest{MachineId: "m-a"})
		return err
	}
	var last error
	for range 60 {
		last = get(greedy)
	}
	if status.Code(last) != codes.ResourceExhausted ||
		detail[*errdetails.RetryInfo](last).GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("got %v", last)
	}
	if err := get(modest); err != nil {
		t.Errorf("somebody else got %v", err)
	}
	reasons := map[codes.Code]int{}
	for range 120 {
		reasons[status.Code(get(bad))]++
	}
	if reasons[codes.Unauthenticated] < 50 || reasons[codes.ResourceExhausted] < 20 {
		t.Errorf("without credentials: got %v", reasons)
	}
	if err := get(modest); err != nil {
		t.Errorf("somebody with good credentials got %v", err)
	}
}

// TestPlainTextToTLS checks that a client without TLS gets no answer from a TLS listener,
// and blocks nothing.
func TestPlainTextToTLS(t *testing.T) {
	p := secure(t, auth.Config{})
	for _, addr := range []string{p.grpc, p.http} {
		c := dial(t, addr)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if !closed(t, c, 10*time.Second) {
			t.Errorf("%s stays open", addr)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.ca.Pair.Cert)
	// that is what is refused
	old := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	d := tls.Dialer{Config: old}
	if c, err := d.DialContext(context.Background(), "tcp", p.http); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 was taken")
	}
}
