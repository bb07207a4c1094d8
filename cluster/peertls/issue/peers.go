package issue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// NewPeerCA returns a CA that certifies only the peers of a cluster, valid until end.
func (ca *CA) NewPeerCA(cluster string, end time.Time) (*CA, error) {
	if err := peertls.CheckName("cluster", cluster); err != nil {
		return nil, err
	}
	if ca.Cert.MaxPathLen == 0 && ca.Cert.MaxPathLenZero {
		return nil, fmt.Errorf("make a CA of peers: the CA %q may certify no other CA: make another one "+
			"(holdfast tls ca create)", ca.Cert.Subject.CommonName)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	if end.After(ca.Cert.NotAfter) {
		end = ca.Cert.NotAfter
	}
	pair, cert, err := sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "Holdfast peers of " + cluster},
		URIs:     []*url.URL{peertls.PeersURI(cluster)},
		NotAfter: end, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca.Cert, key, ca.key)
	if err != nil {
		return nil, err
	}
	return &CA{Pair: pair, Cert: cert, key: key}, nil
}

// LoadPeerCA returns the CA of peers with a certificate and key (PEM).
func LoadPeerCA(p Pair) (*CA, error) {
	ca, err := LoadCA(p)
	if err != nil {
		return nil, err
	}
	if _, only := peertls.PeersCA(ca.Cert); !only {
		return nil, fmt.Errorf("read the CA: %q may certify more than peers: its key does not belong on a peer",
			ca.Cert.Subject.CommonName)
	}
	return ca, nil
}

// Renew returns another certificate of a peer with the names and addresses of its present one, for
// the key of a request (PKCS #10, DER) and with the CA's own certificate behind it (PEM). It begins
// now.
func (ca *CA) Renew(
	present *x509.Certificate, csr []byte, now time.Time, life time.Duration,
) (chain []byte, cert *x509.Certificate, err error) {
	cluster, id, ok := peertls.PeerID(present)
	if of, only := peertls.PeersCA(ca.Cert); !ok || !only || of != cluster {
		return nil, nil, errors.New("renew certificate: the present one is not that of a peer of this CA's cluster")
	}
	req, err := x509.ParseCertificateRequest(csr)
	if err == nil {
		err = req.CheckSignature()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("renew certificate: read the request: %w", err)
	}
	t := &x509.Certificate{
		Subject:  pkix.Name{CommonName: id, SerialNumber: peertls.IssuedAs(now)},
		URIs:     present.URIs,
		DNSNames: present.DNSNames, IPAddresses: present.IPAddresses,
		NotBefore: now.Add(-skew), NotAfter: now.Add(life), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if t.NotAfter.After(ca.Cert.NotAfter) {
		t.NotAfter = ca.Cert.NotAfter
	}
	if cert, err = create(t, ca.Cert, req.PublicKey, ca.key); err != nil {
		return nil, nil, err
	}
	return append(encode(cert), encode(ca.Cert)...), cert, nil
}
