package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestMismatchEndsTheCall checks that a connection that cannot work is not retried until the
// deadline.
func TestMismatchEndsTheCall(t *testing.T) {
	site := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(site.Close)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	secure := func(auth tls.ClientAuthType) string {
		return startPeer(t, &fakePeer{options: []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: site.TLS.Certificates, ClientAuth: auth, MinVersion: tls.VersionTLS12}))}}).addr
	}
	withTLS, strict, plain := secure(tls.NoClientCert), secure(tls.RequireAnyClientCert), startPeer(t, &fakePeer{}).addr

	for _, tt := range []struct {
		name  string
		addrs []string
		tls   *tls.Config
		want  bool // that the call ends before its deadline
	}{
		{"another CA", []string{withTLS}, &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, true},
		{"no TLS in the client", []string{withTLS}, nil, true},
		{"no TLS in the server", []string{plain}, trusting, true},
		{"no client certificate", []string{strict}, trusting, true},
		{"an HTTP port", []string{web.Listener.Addr().String()}, nil, true},
		{"a TLS port without gRPC", []string{site.Listener.Addr().String()}, trusting, true},
		{"all addresses", []string{withTLS, web.Listener.Addr().String()}, nil, true},
		{"nothing listens at another address", []string{withTLS, refusedAddr(t)}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if !tt.want {
				timeout = 3 * mismatchTime
			}
			c := dial(t, Config{Addrs: tt.addrs, TLS: tt.tls})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			err := get(ctx, c)
			call, ok := errors.AsType[*CallError](err)
			if !ok || (call.Cause == nil) != tt.want {
				t.Errorf("call: got %v, want an end before the deadline: %v", err, tt.want)
			}
			if !tt.want {
				return
			}
			err = c.WatchRuns(ctx, "", 0, func(*holdfastv1.RunEvent) error { return nil })
			if _, ok := errors.AsType[*CallError](err); !ok {
				t.Errorf("watch: got %v, want an error of the connection", err)
			}
		})
	}
	t.Run("the other address works", func(t *testing.T) {
		if err := get(testContext(t), dial(t, Config{Addrs: []string{withTLS, plain}})); err != nil {
			t.Errorf("got %v, want an answer", err)
		}
	})
}
