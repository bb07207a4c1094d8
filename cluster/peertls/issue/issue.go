// Package issue creates certificate authorities and certificates for peers, users and
// tools.
//
// It owns the contents of certificates (docs/security.md). It must not read or write files. A
// serving peer only signs the certificates of other peers, because no other CA's key belongs there.
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

// skew is how far in the past a new certificate begins, because clocks differ.
const skew = time.Hour

// Pair is a certificate and its key (PEM).
type Pair struct{ Cert, Key []byte }

// CA issues certificates.
type CA struct {
	Pair
	Cert *x509.Certificate
	key  any
}

// NewCA returns a CA for the peers and clients of a cluster, with an ECDSA P-256 key. It is
// valid until end.
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
		NotAfter: end, IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1, // of peers
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	pair, cert, err := sign(t, nil, key, key)
	if err != nil {
		return nil, err
	}
	return &CA{Pair: pair, Cert: cert, key: key}, nil
}

// LoadCA returns the CA with a certificate and key (PEM).
func LoadCA(p Pair) (*CA, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if !pair.Leaf.IsCA {
		return nil, fmt.Errorf("read the CA: the certificate of %q is not a CA's", pair.Leaf.Subject.CommonName)
	}
	return &CA{Pair: p, Cert: pair.Leaf, key: pair.PrivateKey}, nil
}

// Cluster returns the cluster of the CA, or "" if other tools created the CA.
func (ca *CA) Cluster() string {
	c, _ := peertls.ClusterOf(ca.Cert)
	return c
}

// Peer issues a certificate for a peer, as server and as client. hosts are the names and
// addresses that clients use for it. localhost and the loopback addresses are always
// included.
func (ca *CA) Peer(cluster, id string, hosts []string, end time.Time) (Pair, error) {
	if err := errors.Join(peertls.CheckName("cluster", cluster), peertls.CheckName("peer id", id)); err != nil {
		return Pair{}, err
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: id, SerialNumber: peertls.IssuedAs(time.Now())},
		URIs:    []*url.URL{peertls.PeerURI(cluster, id)}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	seen := map[string]bool{}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if seen[h] {
			continue
		}
		seen[h] = true
		if err := peertls.CheckHost(h); err != nil {
			return Pair{}, err
		}
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return ca.issue(t)
}

// Client issues a certificate for a user with roles, such as "admin", or "operator@pool"
// for one pool only.
func (ca *CA) Client(user string, roles []string, end time.Time) (Pair, error) {
	if user == "" {
		return Pair{}, errors.New("client certificate: the user name is empty")
	}
	return ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, OrganizationalUnit: roles}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Named issues a certificate for both uses with these URIs, as other tools with the same CA
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

// sign signs a certificate. Without a parent it is self-signed.
func sign(t, parent *x509.Certificate, key *ecdsa.PrivateKey, by any) (p Pair, c *x509.Certificate, err error) {
	// For tests, NotAfter may be in the past. NotBefore must still precede it.
	t.NotBefore = time.Now().Add(-skew)
	if t.NotAfter.Before(t.NotBefore) {
		t.NotBefore = t.NotAfter.Add(-skew)
	}
	if parent == nil {
		parent = t
	}
	if c, err = create(t, parent, key.Public(), by); err != nil {
		return p, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return p, nil, fmt.Errorf("encode key: %w", err)
	}
	p.Cert = encode(c)
	p.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return p, c, nil
}

// create makes a certificate for a public key.
func create(t, parent *x509.Certificate, public, by any) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, public, by)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return c, nil
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
