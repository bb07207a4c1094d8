package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

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
	foreign := startPeer(t, &fakePeer{options: []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: site.TLS.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
		MinVersion: tls.VersionTLS12}))}}).addr
	withForeign := trusting.Clone()
	withForeign.Certificates = site.TLS.Certificates
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
		{"a foreign client certificate", []string{foreign}, withForeign, true},
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

// TestMismatches checks which failures in a row are permanent: a closed connection may hide the
// refusal of a certificate, but no other failure does.
func TestMismatches(t *testing.T) {
	failure := func(text string) error { return status.Error(codes.Unavailable, text) }
	alert, reset := failure("remote error: tls: bad certificate"), failure("read: connection reset by peer")
	refused := failure("dial tcp 10.0.0.1:1: connect: connection refused")
	type try struct {
		peer int
		err  error
	}
	for _, tt := range []struct {
		name      string
		tries     []try
		addresses int
		want      bool
	}{
		{"an alert twice", []try{{0, alert}, {0, alert}}, 1, true},
		{"an alert once", []try{{0, alert}}, 1, false},
		{"an alert and a closed connection", []try{{0, alert}, {0, reset}, {0, alert}}, 1, true},
		{"a closed connection alone", []try{{0, reset}, {0, reset}}, 1, false},
		{"nothing listens later", []try{{0, alert}, {0, alert}, {0, refused}}, 1, false},
		{"one of two", []try{{0, alert}, {1, refused}, {0, alert}, {1, refused}}, 2, false},
		{"both of two", []try{{0, alert}, {1, alert}, {0, reset}, {1, alert}}, 2, true},
		{"no leader", []try{{0, alert}, {0, alert}, {0, failure("no leader")}}, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var m mismatches
			for _, try := range tt.tries {
				m.note(try.peer, try.err, true)
			}
			if m.permanent(tt.addresses) {
				t.Errorf("%s: permanent at once", tt.name)
			}
			if wait := m.pause(tt.addresses, time.Hour); m.all(tt.addresses) != (wait <= mismatchTime) {
				t.Errorf("%s: got a pause of %v", tt.name, wait)
			}
			time.Sleep(mismatchTime) // sleep: the time of synctest
			if got := m.permanent(tt.addresses); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}
