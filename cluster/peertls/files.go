package peertls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
)

// raw holds the contents of the files.
type raw struct{ ca, cert, key, peerCA, renewed []byte }

func (r raw) same(o raw) bool {
	return bytes.Equal(r.ca, o.ca) && bytes.Equal(r.cert, o.cert) && bytes.Equal(r.key, o.key) &&
		bytes.Equal(r.peerCA, o.peerCA) && bytes.Equal(r.renewed, o.renewed)
}

// set is a set of matching certificates. It is immutable.
type set struct {
	roots   *x509.CertPool
	cas     []*x509.Certificate
	pair    tls.Certificate
	leaf    *x509.Certificate
	peerCAs []*x509.Certificate // that may certify peers under a CA; none: any
	cluster string
	id      string
	renewed bool // the certificate was renewed by the peer itself
}

func readFiles(c *Config) (r raw, err error) {
	if r.ca, err = keyfile.Read(c.CA); err != nil {
		return r, err
	}
	if r.cert, err = keyfile.Read(c.Cert); err != nil {
		return r, err
	}
	if r.key, err = keyfile.ReadPrivate(c.Key); err != nil {
		return r, err
	}
	if c.PeerCA != "" {
		if r.peerCA, err = keyfile.Read(c.PeerCA); err != nil {
			return r, err
		}
	}
	r.renewed, err = readRenewed(c.Renewed)
	return r, err
}

// parseOne returns the set in the files of the certificate and its key. It returns an error if the
// peer cannot use them now.
func parseOne(c *Config, r raw, now time.Time) (*set, error) {
	s := &set{roots: x509.NewCertPool()}
	var err error
	if s.cas, err = ParseCerts(r.ca); err != nil {
		return nil, fmt.Errorf("read CA certificates %s: %w", c.CA, err)
	}
	for _, ca := range s.cas {
		if !ca.IsCA {
			return nil, fmt.Errorf("read CA certificates %s: the certificate of %q is not a CA's",
				c.CA, ca.Subject.CommonName)
		}
		s.roots.AddCert(ca)
	}
	if len(r.peerCA) > 0 {
		if s.peerCAs, err = ParseCerts(r.peerCA); err != nil {
			return nil, fmt.Errorf("read CA certificates %s: %w", c.PeerCA, err)
		}
	}
	if s.pair, err = tls.X509KeyPair(r.cert, r.key); err != nil {
		return nil, fmt.Errorf("read certificate %s with key %s: %w", c.Cert, c.Key, err)
	}
	s.leaf = s.pair.Leaf
	var ok bool
	if s.cluster, s.id, ok = PeerID(s.leaf); !ok {
		return nil, fmt.Errorf("read certificate %s: it is not a peer's: "+
			"make one with: holdfast tls cert create --peer %s",
			c.Cert, c.PeerID)
	}
	if s.id != c.PeerID {
		return nil, fmt.Errorf("read certificate %s: it belongs to peer %s, but this is peer %s",
			c.Cert, s.id, c.PeerID)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := s.verify(s.leaf, intermediates(s.pair), use, now); err != nil {
			return nil, fmt.Errorf("read certificate %s: the other peers would refuse it: %w", c.Cert, explain(err))
		}
	}
	return s, nil
}

// ParseCerts returns all certificates of a PEM file, at least one. Other blocks, such as
// keys, are ignored.
func ParseCerts(b []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no PEM certificate found")
	}
	return certs, nil
}

func intermediates(pair tls.Certificate) []*x509.Certificate {
	var certs []*x509.Certificate
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			certs = append(certs, c)
		}
	}
	return certs
}

// verify returns nil if one of the CAs has certified the certificate for that use, directly or
// through a CA for peers, and it has not ended. Its begin is not checked: a clock that is behind,
// such as that of a peer that was down while the others renewed their certificates, would lock out
// the peers that could correct it.
func (s *set) verify(leaf *x509.Certificate, between []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) error {
	pool := x509.NewCertPool()
	for _, c := range between {
		pool.AddCert(c)
	}
	var failed error
	for _, ca := range s.cas { // one by one: another CA that begins later must not move the time
		at := now
		for _, c := range append([]*x509.Certificate{leaf, ca}, between...) {
			if c.NotBefore.After(at) {
				at = c.NotBefore
			}
		}
		root := x509.NewCertPool()
		root.AddCert(ca)
		chains, err := leaf.Verify(x509.VerifyOptions{
			Roots: root, Intermediates: pool, CurrentTime: at,
			KeyUsages: []x509.ExtKeyUsage{use},
		})
		if err == nil {
			return s.checkIssuers(leaf, chains)
		}
		var unknown x509.UnknownAuthorityError
		if failed == nil || !errors.As(err, &unknown) {
			failed = err
		}
	}
	return failed
}

// explain adds a remedy to an error of x509.
func explain(err error) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: make a new one with: holdfast tls cert create", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("its issuer %q is not in the CA file, or has another key there", unknown.Cert.Issuer.CommonName)
	}
	return err
}
