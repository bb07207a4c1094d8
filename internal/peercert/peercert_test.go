package peercert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/peercert"
)

// TestCheck checks which settings fit together.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		args     []string
		insecure bool
		want     string
	}{
		{nil, false, ""},
		{nil, true, ""},
		{[]string{"--tls-peer-ca", "a", "--tls-peer-ca-key", "b"}, false, ""},
		{[]string{"--tls-peer-ca", "a", "--tls-peer-ca-key", "b"}, true, "--insecure"},
		{[]string{"--tls-peer-ca", "a"}, false, "set both"},
		{[]string{"--tls-peer-ca-key", "a"}, false, "set both"},
		{[]string{"--tls-peer-days", "2"}, false, "3 to 90, not 2"},
		{[]string{"--tls-peer-days", "91"}, false, "3 to 90, not 91"},
	} {
		var c peercert.Config
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Flags(fs)
		if err := fs.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		err := c.Check(tt.insecure)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: got %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

// TestSigner checks which CAs may sign, and what they sign.
func TestSigner(t *testing.T) {
	end := time.Now().Add(1000 * time.Hour)
	ca, err := issue.NewCA("prod", end)
	if err != nil {
		t.Fatal(err)
	}
	peers, err := ca.NewPeerCA("prod", end)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(p issue.Pair, err error) *x509.Certificate {
		if err != nil {
			t.Fatal(err)
		}
		certs, err := peertls.ParseCerts(p.Cert)
		if err != nil {
			t.Fatal(err)
		}
		return certs[0]
	}
	for _, tt := range []struct {
		name    string
		by      issue.Pair
		present *x509.Certificate
		csr     []byte
		want    string
	}{
		{"a peer", peers.Pair, leaf(ca.Peer("prod", "n1", []string{"n1.example.org"}, end)), csr, ""},
		{"a CA that may certify users", ca.Pair, leaf(ca.Peer("prod", "n1", nil, end)), csr, "may certify more than peers"},
		{"a user", peers.Pair, leaf(ca.Client("alice", []string{"admin"}, end)), csr, "not that of a peer"},
		{"a peer of another cluster", peers.Pair, leaf(ca.Peer("lab", "n1", nil, end)), csr, "not that of a peer"},
		{"a damaged request", peers.Pair, leaf(ca.Peer("prod", "n1", nil, end)), csr[:20], "read the request"},
		{"another signature", peers.Pair, leaf(ca.Peer("prod", "n1", nil, end)), append(csr[:len(csr)-1:len(csr)-1],
			csr[len(csr)-1]^1), "read the request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c := peercert.Config{CA: filepath.Join(dir, "ca.pem"), Key: filepath.Join(dir, "key.pem"), Days: 7}
			for path, data := range map[string][]byte{c.CA: tt.by.Cert, c.Key: tt.by.Key} {
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var chain []byte
			sign, err := c.Signer(time.Now)
			if err == nil {
				chain, _, err = sign(tt.present, tt.csr)
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q in it", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := leaf(issue.Pair{Cert: chain}, nil)
			_, id, ok := peertls.PeerID(got)
			if left := time.Until(got.NotAfter); !ok || id != "n1" || left > 7*24*time.Hour || left < 6*24*time.Hour ||
				got.VerifyHostname("n1.example.org") != nil {
				t.Errorf("got a certificate of %q for %s with %v", id, left, got.DNSNames)
			}
			if !key.PublicKey.Equal(got.PublicKey) {
				t.Error("got another key")
			}
		})
	}
}
