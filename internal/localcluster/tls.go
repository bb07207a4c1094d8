package localcluster

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/pki"
)

// secure creates certificates and gossip keys for all peers, and a client certificate of an
// admin.
func (c *Cluster) secure(cfg Config) error {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	dir, err := os.MkdirTemp(cfg.Dir, "tls-") // a new one, because another cluster may have used cfg.Dir
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	var ids []string
	for _, p := range c.all {
		ids = append(ids, p.ID)
	}
	files, err := pki.Material(dir, "local", ids, cfg.Hosts...)
	if err != nil {
		return err
	}
	c.files = &files
	if c.admin, err = client.LoadTLS(files.CA, files.AdminCert, files.AdminKey); err != nil {
		return err
	}
	c.admin.RootCAs.AppendCertsFromPEM(cfg.Trust)
	c.asPeer = map[*Peer]*tls.Config{}
	for _, p := range c.all {
		cert, key := files.Peer(p.ID)
		if c.asPeer[p], err = client.LoadTLS(files.CA, cert, key); err != nil {
			return err
		}
		c.asPeer[p].RootCAs.AppendCertsFromPEM(cfg.Trust)
	}
	c.http.Transport = &http.Transport{TLSClientConfig: c.admin}
	return nil
}

// Files returns the certificates of the cluster, or nil if it is insecure.
func (c *Cluster) Files() *pki.Files { return c.files }

// TLS returns the configuration of a client that is an admin, or nil if the cluster is insecure.
func (c *Cluster) TLS() *tls.Config {
	if c.admin == nil {
		return nil
	}
	return c.admin.Clone()
}

// Credentials returns the gRPC credentials of an admin.
func (c *Cluster) Credentials() credentials.TransportCredentials {
	if c.admin == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c.TLS())
}

// PeerCredentials returns the gRPC credentials of a peer, for the methods that only peers may call.
func (c *Cluster) PeerCredentials(p *Peer) credentials.TransportCredentials {
	cfg, ok := c.asPeer[p]
	if !ok {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(cfg)
}

// HTTP returns a client of the HTTP addresses of the peers, as an admin.
func (c *Cluster) HTTP() *http.Client { return c.http }

// URL returns the URL of a path of the peer.
func (p *Peer) URL(path string) string {
	if p.secure {
		return "https://" + p.HTTPAddr + path
	}
	return "http://" + p.HTTPAddr + path
}
