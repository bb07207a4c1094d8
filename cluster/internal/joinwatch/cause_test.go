package joinwatch

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/internal/gossip"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestAddressCauses joins at real ports that are not those of a peer with the same key.
func TestAddressCauses(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12} // as peertls.Store.HTTP
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	pair := credentials.NewTLS(&tls.Config{Certificates: secure.TLS.Certificates, MinVersion: tls.VersionTLS13})
	raft := listen(t)
	go serve(raft, func(c net.Conn) {
		_ = tls.Server(c, &tls.Config{Certificates: secure.TLS.Certificates, MinVersion: tls.VersionTLS13}).Handshake()
	})
	closes := listen(t)
	go serve(closes, func(c net.Conn) { _, _ = c.Read(make([]byte, 1000)) })
	// The own port of a connection is taken, so no other listener gets it, and nothing listens
	// there.
	busy, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	for _, tt := range []struct {
		name, at, key string
		want          string
	}{
		{"nothing listens", busy.LocalAddr().String(), "", "does not answer: connection refused"},
		{"unknown name", "peer.invalid:7403", "", "does not answer: the name is unknown"},
		{"HTTP port", web.Listener.Addr().String(), "", "is an HTTP port: join takes gossip addresses"},
		{"HTTP port, with a gossip key", web.Listener.Addr().String(), "a", "is an HTTP port"},
		{"HTTPS port", secure.Listener.Addr().String(), "a", "is an HTTP port"},
		{"gRPC port", rpc(t), "", "is a gRPC port"},
		{"gRPC port with TLS", rpc(t, grpc.Creds(pair)), "a", "is a gRPC port"},
		{"Raft port with TLS", raft.Addr().String(), "a", "is a Raft port"},
		{"another service", closes.Addr().String(), "a", "does not answer as a peer does: join takes"},
		{"another gossip key", member(t, "n2", "b", "").Addr(), "a", "encrypts with another gossip key"},
		{"gossip key only here", member(t, "n2", "", "").Addr(), "a", "does not encrypt gossip, but this peer does"},
		{"gossip key only there", member(t, "n2", "b", "").Addr(), "", "encrypts gossip, but this peer has no gossip key"},
		{"another cluster", member(t, "n2", "", "cluster-b").Addr(), "", "belongs to cluster cluster-b, but this peer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := member(t, "n1", tt.key, "cluster-a")
			err := joinOnce(t, g, tt.at)
			if err == nil {
				t.Fatal("join succeeded")
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			if got := New(nil, nil).address(ctx, tt.at, err); !strings.Contains(got, tt.want) {
				t.Errorf("%v: got cause %q, want %q in it", err, got, tt.want)
			}
		})
	}
}

// joinOnce returns the error of one round of joins.
func joinOnce(t *testing.T, g *gossip.Gossip, addr string) error {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	known := func() map[string]string {
		if len(g.FailedJoins()) > 0 { // the second round
			stop()
		}
		return map[string]string{}
	}
	_ = g.KeepJoined(ctx, []string{addr}, known, func() bool { return true }, 100*time.Millisecond)
	return g.FailedJoins()[addr]
}

// member opens gossip with a key of one repeated letter, or without encryption.
func member(t *testing.T, id, key, cluster string) *gossip.Gossip {
	t.Helper()
	cfg := gossip.Config{PeerID: id, Addr: "127.0.0.1:0", Multiplier: 1, Logger: slog.New(slog.DiscardHandler)}
	if key != "" {
		cfg.KeyFile = filepath.Join(t.TempDir(), "gossip.key")
		line := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(key, 32)))
		if err := os.WriteFile(cfg.KeyFile, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := gossip.Open(cfg, func() *internalv1.GossipMeta { return &internalv1.GossipMeta{Id: id, ClusterId: cluster} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(false) })
	return g
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve calls f with each connection and closes it.
func serve(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f(c)
		_ = c.Close()
	}
}

func rpc(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, s := listen(t), grpc.NewServer(opts...)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func TestCallCauses(t *testing.T) {
	unavailable := func(msg string) error { return status.Error(codes.Unavailable, msg) }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.2:7400: connect: ` +
			`connection refused"`), "does not answer: connection refused"},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "does not answer: timeout"},
		{unavailable(`connection error: desc = "error reading server preface: remote error: tls: unknown certificate ` +
			`authority"`), "refuses the certificate of this peer: is it issued by the CA of that cluster, and valid?"},
		{unavailable(`connection error: desc = "transport: authentication handshake failed: x509: certificate signed by ` +
			`unknown authority"`), "has a certificate of another CA: is tls_ca the same on both?"},
		{unavailable(`connection error: desc = "transport: authentication handshake failed: not a peer of this cluster: ` +
			`the certificate belongs to peer n2 of cluster b, but this is cluster a"`),
			"is not accepted: the certificate belongs to peer n2 of cluster b, but this is cluster a"},
		{unavailable(`connection error: desc = "error reading server preface: EOF"`),
			"closes the connection: does it require TLS?"},
		{errors.New("the gRPC address is unknown"), "answers with an error: the gRPC address is unknown"},
	} {
		if got := Call(tt.err); got != tt.want {
			t.Errorf("%v:\n got %q\nwant %q", tt.err, got, tt.want)
		}
	}
}
