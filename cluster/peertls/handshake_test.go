package peertls_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// shake performs a handshake over real sockets. It returns the server's view of the client, and
// both errors. Each side reads a byte of the other, because with TLS 1.3 only that shows the client
// a refusal.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serr, cerr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := peertls.Listen(l).Accept()
		if err != nil {
			serr = err
			return
		}
		defer c.Close()
		s := tls.Server(c, server)
		if _, serr = s.Write([]byte("s")); serr == nil {
			_, serr = io.ReadFull(s, make([]byte, 1))
		}
		state = s.ConnectionState()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tc := tls.Client(c, client)
	if _, cerr = tc.Write([]byte("c")); cerr == nil {
		_, cerr = io.ReadFull(tc, make([]byte, 1))
	}
	_ = c.Close()
	<-done
	return state, serr, cerr
}

// clientConfig returns the configuration of a client that accepts any server, with a certificate or
// none.
func clientConfig(t *testing.T, p issue.Pair) *tls.Config {
	t.Helper()
	cfg := &tls.Config{InsecureSkipVerify: true}
	if p.Cert != nil {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

// TestAcceptedCertificates checks which certificate is accepted by which listener.
func TestAcceptedCertificates(t *testing.T) {
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	s := open(t, ca, "prod", "n1")
	past := time.Now().Add(-time.Minute)
	double := func(uris ...string) issue.Pair { return withURIs(t, ca, uris...) }
	for _, tc := range []struct {
		name      string
		cert      issue.Pair
		raft, api string // the error of the server; "" if it accepts the caller
	}{
		{"a peer", must(t)(ca.Peer("prod", "n2", nil, never)), "", ""},
		{"no certificate", issue.Pair{}, "didn't provide a certificate", ""},
		{"a client", must(t)(ca.Client("alice", []string{"admin"}, never)), "not a peer of this cluster", ""},
		{"a client with the name of a peer", must(t)(ca.Client("n2", []string{"peer"}, never)),
			"not a peer of this cluster", ""},
		{"a peer of another cluster", must(t)(ca.Peer("lab", "n2", nil, never)), "of cluster lab, but this is cluster prod",
			"of cluster lab, but this is cluster prod"},
		{"a peer of another CA", must(t)(other.Peer("prod", "n2", nil, never)), "unknown authority", "unknown authority"},
		{"a client of another CA", must(t)(other.Client("alice", []string{"admin"}, never)), "unknown authority",
			"unknown authority"},
		{"a peer that has expired", must(t)(ca.Peer("prod", "n2", nil, past)), "expired", "expired"},
		{"a client that has expired", must(t)(ca.Client("alice", []string{"admin"}, past)), "expired", "expired"},
		{"a peer with two names", double("spiffe://holdfast/prod/peer/n2", "spiffe://holdfast/prod/peer/n3"), "not a peer",
			"not a peer"},
		{"a malformed peer", double("spiffe://holdfast/prod/peer/n2/x"), "not a peer", "not a peer"},
		{"a workload of another SPIFFE domain", double("spiffe://example.org/web"), "not a peer", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, l := range []struct {
				name   string
				server *tls.Config
				want   string
			}{{"raft", s.PeerServer(), tc.raft}, {"api", s.API(), tc.api}, {"http", s.HTTP(), tc.api}} {
				_, serr, cerr := shake(t, l.server, clientConfig(t, tc.cert))
				switch {
				case l.want == "" && (serr != nil || cerr != nil):
					t.Errorf("%s: got a refusal: %v, %v", l.name, serr, cerr)
				case l.want != "" && (serr == nil || cerr == nil):
					t.Errorf("%s: got no refusal: %v, %v", l.name, serr, cerr)
				case l.want != "" && !strings.Contains(serr.Error(), l.want):
					t.Errorf("%s: got server error %q, want %q in it", l.name, serr, l.want)
				}
			}
		})
	}
}

// withURIs issues a certificate for both uses with these URIs.
func withURIs(t *testing.T, ca *issue.CA, names ...string) issue.Pair {
	t.Helper()
	p, err := ca.Named(uris(t, names), never)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDialerChecksPeer(t *testing.T) {
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	n1 := open(t, ca, "prod", "n1")
	for _, tc := range []struct {
		name   string
		server *peertls.Store
		ids    []string
		want   string
	}{
		{"wanted peer", open(t, ca, "prod", "n2"), []string{"n2"}, ""},
		{"one of the wanted peers", open(t, ca, "prod", "n2"), []string{"n3", "n2"}, ""},
		{"any peer", open(t, ca, "prod", "n2"), nil, ""},
		{"another peer", open(t, ca, "prod", "n3"), []string{"n2"}, "it is peer n3, not n2"},
		{"of another cluster", open(t, ca, "lab", "n2"), []string{"n2"}, "not a peer of this cluster"},
		{"of another CA", open(t, other, "prod", "n2"), []string{"n2"}, "unknown authority"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := shake(t, tc.server.PeerServer(), n1.PeerClient(tc.ids...))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestCaller(t *testing.T) {
	ca := newCA(t, "prod")
	s := open(t, ca, "prod", "n1")
	state := func(p issue.Pair) *tls.ConnectionState {
		cs, serr, cerr := shake(t, s.API(), clientConfig(t, p))
		if err := errors.Join(serr, cerr); err != nil {
			t.Fatal(err)
		}
		return &cs
	}
	if c, ok := peertls.FromState(state(must(t)(ca.Peer("prod", "n2", nil, never))), time.Now()); !ok ||
		c.Cluster != "prod" ||
		c.Peer != "n2" {
		t.Errorf("caller of a peer: got %+v, %t", c, ok)
	}
	if c, ok := peertls.FromState(state(must(t)(ca.Client("alice", []string{"admin"}, never))), time.Now()); !ok ||
		c.Peer != "" ||
		c.Cert.Subject.CommonName != "alice" {
		t.Errorf("caller of a client: got %+v, %t", c, ok)
	}
	if c, ok := peertls.FromState(state(issue.Pair{}), time.Now()); ok {
		t.Errorf("caller without a certificate: got %+v", c)
	}
	if _, ok := peertls.FromState(nil, time.Now()); ok {
		t.Error("caller without TLS: got one")
	}
	// In whole seconds: a busy machine has four for the handshake.
	old := state(must(t)(ca.Client("alice", nil, time.Now().Add(5*time.Second))))
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, ok := peertls.FromState(old, time.Now()); !ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("expired certificate on an open connection: got it accepted")
		}
		time.Sleep(20 * time.Millisecond) // sleep: poll
	}
}

// A client that knows only the CA needs a certificate with the server's host.
func TestServerCertificateHasHosts(t *testing.T) {
	ca := newCA(t, "prod")
	s, err := peertls.Open(newFiles(t, ca.Pair.Cert,
		must(t)(ca.Peer("prod", "n1", []string{"n1.example.org", "192.0.2.7"}, never))).config("n1"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "n1.example.org": true,
		"192.0.2.7": true, "n2.example.org": false} {
		_, _, err := shake(t, s.HTTP(), &tls.Config{RootCAs: roots, ServerName: host})
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, protos := range [][]string{{"h2"}, {"http/1.1"}} {
		cs, _, err := shake(t, s.HTTP(), &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: protos})
		if err != nil || cs.NegotiatedProtocol != protos[0] {
			t.Errorf("ALPN %v: got %q, %v", protos, cs.NegotiatedProtocol, err)
		}
	}
	if _, _, err := shake(t, s.PeerServer(), &tls.Config{RootCAs: roots, ServerName: "localhost",
		MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("raft port: got TLS 1.2")
	}
}

// A connection closes when the certificate that opened it expires.
func TestConnectionsEndWithTheirCertificate(t *testing.T) {
	ca := newCA(t, "prod")
	s := open(t, ca, "prod", "n1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := time.Now().Add(5 * time.Second) // in whole seconds: a busy machine has four for the handshake
	server := make(chan error, 1)
	go func() {
		c, err := tls.NewListener(peertls.Listen(l), s.API()).Accept()
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		server <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), clientConfig(t, must(t)(ca.Client("alice", nil, end))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("client: got %v, want a closed connection", err)
	}
	if err := <-server; err == nil {
		t.Error("server: got an open connection")
	}
	if early := end.Truncate(time.Second); time.Now().Before(early) {
		t.Error("got a closed connection before the certificate expired")
	}
}

// TestClockBehind checks that a peer whose clock is far behind accepts certificates that begin
// later, also its own and that of a CA. It could not learn the time from other peers otherwise.
func TestClockBehind(t *testing.T) {
	ca := newCA(t, "prod")
	late := openWith(t, ca, nil, func(c *peertls.Config) {
		c.Now = func() time.Time { return time.Now().Add(-30 * 24 * time.Hour) }
	})
	right := must(t)(ca.Peer("prod", "n2", nil, never))
	for name, server := range map[string]*tls.Config{"raft": late.PeerServer(), "api": late.API()} {
		if cs, serr, cerr := shake(t, server, clientConfig(t, right)); serr != nil || cerr != nil {
			t.Errorf("%s: got a refusal: %v, %v", name, serr, cerr)
		} else if c, ok := peertls.FromState(&cs, time.Now()); !ok || c.Peer != "n2" {
			t.Errorf("%s: got caller %+v, %v, want peer n2", name, c, ok)
		}
	}
	other := open(t, ca, "prod", "n2")
	if _, serr, cerr := shake(t, other.PeerServer(), late.PeerClient("n2")); serr != nil || cerr != nil {
		t.Errorf("as a client: got a refusal: %v, %v", serr, cerr)
	}
}

// TestCAOfLater checks that a CA which begins in a year, for example made on a host with a wrong
// clock, does not affect certificates of the other CA in the file.
func TestCAOfLater(t *testing.T) {
	ca := newCA(t, "prod")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	later := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "later"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: never.Add(time.Hour), NotAfter: never.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, later, later, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ca.Pair.Cert...)
	s, err := peertls.Open(newFiles(t, both, must(t)(ca.Peer("prod", "n1", nil, never))).config("n1"))
	if err != nil {
		t.Fatal(err)
	}
	user := must(t)(ca.Client("alice", nil, never))
	if _, serr, cerr := shake(t, s.API(), clientConfig(t, user)); serr != nil || cerr != nil {
		t.Errorf("got a refusal: %v, %v", serr, cerr)
	}
}
