package clustertest

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// ClusterName is the cluster name in the certificates of a cluster with TLS.
const ClusterName = "test"

// reloadInterval is short, because tests wait for it.
const reloadInterval = 50 * time.Millisecond

// certLife is longer than any test.
const certLife = 30 * 24 * time.Hour

func (c *Cluster) tlsDir(p *Peer) string { return filepath.Join(c.dir, "tls-"+p.ID) }

// GossipKeyFile returns the gossip key file of a peer, in a cluster with TLS.
func (c *Cluster) GossipKeyFile(p *Peer) string { return filepath.Join(c.tlsDir(p), "gossip.key") }

// NewCA returns a CA for a cluster name.
func (c *Cluster) NewCA(name string) *issue.CA {
	c.t.Helper()
	ca, err := issue.NewCA(name, time.Now().Add(certLife))
	if err != nil {
		c.t.Fatal(err)
	}
	return ca
}

// GossipKey returns a line for a gossip key file.
func GossipKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

// secure creates the certificates and gossip keys of all peers.
func (c *Cluster) secure() {
	c.CA = c.NewCA(ClusterName)
	key := GossipKey()
	for _, p := range c.Peers {
		if err := os.Mkdir(c.tlsDir(p), 0o700); err != nil {
			c.t.Fatal(err)
		}
		c.WriteFile(c.GossipKeyFile(p), []byte(key))
		c.Certify(p, c.CA, ClusterName, c.CA.Pair.Cert)
	}
}

// Certify issues a new certificate for a peer and sets the CAs that the peer trusts (PEM).
// A running peer reloads them.
func (c *Cluster) Certify(p *Peer, by *issue.CA, name string, trusted []byte) {
	c.t.Helper()
	pair, err := by.Peer(name, p.ID, nil, time.Now().Add(certLife))
	if err != nil {
		c.t.Fatal(err)
	}
	c.Trust(p, trusted)
	c.WriteFile(filepath.Join(c.tlsDir(p), "cert.pem"), pair.Cert)
	c.WriteFile(filepath.Join(c.tlsDir(p), "key.pem"), pair.Key)
}

// Trust changes the CAs that a peer trusts.
func (c *Cluster) Trust(p *Peer, trusted []byte) {
	c.t.Helper()
	c.WriteFile(filepath.Join(c.tlsDir(p), "ca.pem"), trusted)
}

// WriteFile replaces a file atomically.
func (c *Cluster) WriteFile(path string, data []byte) {
	c.t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.t.Fatal(err)
	}
}

// Pair returns the present certificate of a peer and its key.
func (c *Cluster) Pair(p *Peer) (pair issue.Pair) {
	c.t.Helper()
	var errs [2]error
	pair.Cert, errs[0] = os.ReadFile(filepath.Join(c.tlsDir(p), "cert.pem"))
	pair.Key, errs[1] = os.ReadFile(filepath.Join(c.tlsDir(p), "key.pem"))
	if err := errors.Join(errs[:]...); err != nil {
		c.t.Fatal(err)
	}
	return pair
}

// Store opens the certificates of a peer.
func (c *Cluster) Store(p *Peer) (*peertls.Store, error) {
	dir := c.tlsDir(p)
	return peertls.Open(peertls.Config{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		PeerID: p.ID, Interval: reloadInterval, Logger: Logger().With("peer", p.ID),
	})
}

// ClientCredentials returns the credentials of a client that accepts any server. If pair is
// empty, the client has no certificate.
func (c *Cluster) ClientCredentials(pair issue.Pair) credentials.TransportCredentials {
	c.t.Helper()
	cfg := &tls.Config{InsecureSkipVerify: true}
	if pair.Cert != nil {
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			c.t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return credentials.NewTLS(cfg)
}

// protect adds TLS to the configuration of a peer. It returns the options of its gRPC
// server and the credentials of its own client, which has a certificate too.
func (c *Cluster) protect(p *Peer, cfg *cluster.Config) ([]grpc.ServerOption, credentials.TransportCredentials, error) {
	if !c.opts.TLS {
		return nil, insecure.NewCredentials(), nil
	}
	store, err := c.Store(p)
	if err != nil {
		return nil, nil, err
	}
	cfg.TLS, cfg.GossipKeyFile = store, c.GossipKeyFile(p)
	pair, err := c.CA.Client("tester", []string{"admin"}, time.Now().Add(certLife))
	if err != nil {
		return nil, nil, err
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(store.API()))}, c.ClientCredentials(pair), nil
}

// ReadGossipKey returns the contents of a peer's gossip key file.
func (c *Cluster) ReadGossipKey(p *Peer) string {
	c.t.Helper()
	b, err := os.ReadFile(c.GossipKeyFile(p))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// CopyGossipKey copies a peer's gossip keys to another peer.
func (c *Cluster) CopyGossipKey(from, to *Peer) {
	c.t.Helper()
	c.WriteFile(c.GossipKeyFile(to), []byte(c.ReadGossipKey(from)))
}
