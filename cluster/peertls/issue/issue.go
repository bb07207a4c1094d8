// Package issue makes certificate authorities and certificates: of peers, and of the people and
// tools that call them.
//
// It owns what is in a certificate (docs/security.md). It must not read or write files, and a peer
// that serves never calls it: keys of CAs have no business there.
package issue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// skew is how long ago a new certificate begins: clocks differ.
const skew = time.Hour

// Pair is a certificate and its key, PEM.
type Pair struct{ Cert, Key []byte }

// CA makes certificates.
type CA struct {
	Pair
	Cert *x509.Certificate
	key  any
}

// NewCA returns a CA for the peers and clients of a cluster, with an ECDSA P-256 key. It ends at
// that time.
func NewCA(cluster string, end time.Time) (*CA, error) {
	if err := peertls.CheckName("cluster", cluster); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	t := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "Holdfast CA of " + cluster},
		URIs:     []*url.URL{peertls.ClusterURI(cluster)},
		NotAfter: end, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	pair, cert, err := sign(t, nil, key, key)
	if err != nil {
		return nil, err
	}
	return &CA{Pair: pair, Cert: cert, key: key}, nil
}

// LoadCA makes a CA of its certificate and key, PEM.
func LoadCA(p Pair) (*CA, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if !pair.Leaf.IsCA {
		return nil, fmt.Errorf("read the CA: the certificate of %q is no CA's", pair.Leaf.Subject.CommonName)
	}
	return &CA{Pair: p, Cert: pair.Leaf, key: pair.PrivateKey}, nil
}

// Cluster returns the cluster that the CA was made for; empty if it was made by other tools.
func (ca *CA) Cluster() string {
	c, _ := peertls.ClusterOf(ca.Cert)
	return c
}

// Peer makes a certificate for a peer, as server and as client. Hosts are the names and addresses
// that clients use for it; localhost and the loopback addresses are always among them.
func (ca *CA) Peer(cluster, id string, hosts []string, end time.Time) (Pair, error) {
	if err := errors.Join(peertls.CheckName("cluster", cluster), peertls.CheckName("peer id", id)); err != nil {
		return Pair{}, err
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: id}, URIs: []*url.URL{peertls.PeerURI(cluster, id)}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	seen := map[string]bool{}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if seen[h] {
			continue
		}
		seen[h] = true
		switch ip := net.ParseIP(h); {
		case ip != nil:
			t.IPAddresses = append(t.IPAddresses, ip)
		case !hostname(h):
			return Pair{}, fmt.Errorf("host %q: want a name or an IP address, without a port", h)
		default:
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return ca.issue(t)
}

// Client makes a certificate for a user with roles: "admin", or "operator@pool" for one pool only.
func (ca *CA) Client(user string, roles []string, end time.Time) (Pair, error) {
	if user == "" {
		return Pair{}, errors.New("the user of a client certificate has no name")
	}
	return ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, OrganizationalUnit: roles}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Named makes a certificate for both uses that bears these URIs, as other tools of the same CA
// might.
func (ca *CA) Named(uris []*url.URL, end time.Time) (Pair, error) {
	return ca.issue(&x509.Certificate{
		URIs: uris, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (ca *CA) issue(t *x509.Certificate) (Pair, error) {
	if t.NotAfter.After(ca.Cert.NotAfter) {
		t.NotAfter = ca.Cert.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make key: %w", err)
	}
	t.KeyUsage, t.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	pair, _, err := sign(t, ca.Cert, key, ca.key)
	return pair, err
}

// sign makes a certificate; without a parent it is its own.
func sign(t, parent *x509.Certificate, key *ecdsa.PrivateKey, by any) (p Pair, c *x509.Certificate, err error) {
	// Some begin in the past, for tests: a certificate that has ended must have begun.
	t.NotBefore = time.Now().Add(-skew)
	if t.NotAfter.Before(t.NotBefore) {
		t.NotBefore = t.NotAfter.Add(-skew)
	}
	if parent == nil {
		parent = t
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), by)
	if err != nil {
		return p, nil, fmt.Errorf("make certificate: %w", err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return p, nil, fmt.Errorf("make certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return p, nil, fmt.Errorf("encode key: %w", err)
	}
	p.Cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return p, c, nil
}

// hostname reports whether s can be the name of a host in a certificate, which may begin with "*.".
func hostname(s string) bool {
	u, err := url.Parse("https://" + s)
	return err == nil && s != "" && u.Host == s && u.Port() == "" && u.Hostname() == s
}
