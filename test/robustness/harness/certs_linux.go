package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// certLife is longer than any soak test.
const certLife = 30 * 24 * time.Hour

// authorities are the CA in use, and the next one. All clients of this process trust both;
// peers trust the CAs in their files.
type authorities [2]*issue.CA

// CAs returns the CA in use, and the next one.
func (c *Cluster) CAs() (now, next *issue.CA) { return c.cas[0], c.cas[1] }

// TurnCAs makes the next CA the one in use.
func (c *Cluster) TurnCAs() { c.cas[0], c.cas[1] = c.cas[1], c.cas[0] }

// Trust writes the CAs that a peer trusts into its file.
func (c *Cluster) Trust(p *localcluster.Peer, cas ...*issue.CA) error {
	var all []byte
	for _, ca := range cas {
		all = append(all, ca.Pair.Cert...)
	}
	name, _ := c.Files().Shared(p.ID)
	return replace(name, all)
}

// Certify gives a peer a new certificate. Its key is written first or last, because half of
// a pair must not be used.
func (c *Cluster) Certify(p *localcluster.Peer, by *issue.CA, keyFirst bool) (*x509.Certificate, error) {
	host, _, err := net.SplitHostPort(p.GRPCAddr)
	if err != nil {
		return nil, err
	}
	pair, err := by.Peer(c.Files().Cluster, p.ID, []string{host}, time.Now().Add(certLife))
	if err != nil {
		return nil, err
	}
	cert, key := c.Files().Peer(p.ID)
	put := []func() error{func() error { return replace(key, pair.Key) },
		func() error { return replace(cert, pair.Cert) }}
	if !keyFirst {
		slices.Reverse(put)
	}
	if err := errors.Join(put[0](), put[1]()); err != nil {
		return nil, err
	}
	return leaf(pair)
}

// CertifyAdmin gives the clients of this process a new certificate.
func (c *Cluster) CertifyAdmin(by *issue.CA) error {
	pair, err := by.Client("admin", []string{"admin"}, time.Now().Add(certLife))
	if err != nil {
		return err
	}
	f := c.Files()
	return errors.Join(replace(f.AdminKey, pair.Key), replace(f.AdminCert, pair.Cert))
}

func leaf(pair issue.Pair) (*x509.Certificate, error) {
	both, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return both.Leaf, err
}

// GossipKeys writes gossip keys (base64, the first one encrypts) into the file of a peer.
func (c *Cluster) GossipKeys(p *localcluster.Peer, keys ...string) error {
	_, name := c.Files().Shared(p.ID)
	return replace(name, []byte(strings.Join(keys, "\n")+"\n"))
}

// GossipKey returns the first key in a peer's file.
func (c *Cluster) GossipKey(p *localcluster.Peer) (string, error) {
	_, name := c.Files().Shared(p.ID)
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first), nil
}

// replace replaces a file atomically.
func replace(name string, data []byte) error {
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Anonymous returns the credentials of a client without a certificate.
func (c *Cluster) Anonymous() credentials.TransportCredentials {
	cfg := c.TLS()
	cfg.GetClientCertificate = nil
	return credentials.NewTLS(cfg)
}

// ErrRefused is in the error of a connection that the other side has closed because of the
// certificate.
var ErrRefused = errors.New("the certificate was refused")

// Meet connects to an address of a peer with a certificate of that CA: as an admin, or as
// the peer named by as. It returns the certificate that the peer presents.
func (c *Cluster) Meet(ctx context.Context, addr string, by *issue.CA, as string) (*x509.Certificate, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	until := time.Now().Add(time.Hour)
	pair, err := by.Client("admin", []string{"admin"}, until)
	if as != "" {
		pair, err = by.Peer(c.Files().Cluster, as, nil, until)
	}
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	cfg := c.TLS()
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	presented := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	// With TLS 1.3 the client's handshake ends before the server has verified the client.
	// The first read returns the result.
	if err := conn.SetReadDeadline(time.Now().Add(judgeTime)); err != nil {
		return nil, err
	}
	_, err = conn.Read(make([]byte, 1))
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &alert) || err != nil && strings.Contains(err.Error(), "remote error: tls"):
		return presented, fmt.Errorf("%w: %w", ErrRefused, err)
	case err == nil, errors.Is(err, io.EOF), errors.As(err, &timeout) && timeout.Timeout():
		return presented, nil // it accepted the certificate: it responds, waits or times out
	}
	return presented, err
}

// judgeTime bounds the wait for a peer to refuse a certificate.
const judgeTime = 300 * time.Millisecond
