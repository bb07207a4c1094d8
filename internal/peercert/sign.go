package peercert

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// Signer returns the function that signs the certificates of peers (cluster.Config.SignPeer); nil
// if this peer signs none. They begin at now. It fails if the files cannot be used now.
func (c *Config) Signer(now func() time.Time) (func(*x509.Certificate, []byte) ([]byte, string, error), error) {
	if c.CA == "" {
		return nil, nil
	}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return func(present *x509.Certificate, csr []byte) ([]byte, string, error) {
		ca, err := c.load() // the files may have been replaced
		if err != nil {
			return nil, "", err
		}
		chain, cert, err := ca.Renew(present, csr, now(), c.Lasts())
		if err != nil {
			return nil, "", err
		}
		return chain, cert.SerialNumber.Text(16), nil
	}, nil
}

func (c *Config) load() (*issue.CA, error) {
	cert, err := keyfile.Read(c.CA)
	if err != nil {
		return nil, err
	}
	key, err := keyfile.ReadPrivate(c.Key)
	if err != nil {
		return nil, err
	}
	ca, err := issue.LoadPeerCA(issue.Pair{Cert: cert, Key: key})
	if err != nil {
		return nil, fmt.Errorf("read %s with %s: %w", c.CA, c.Key, err)
	}
	return ca, nil
}
