package pki

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// Files holds the paths of a cluster's certificates, keys and gossip keys.
type Files struct {
	dir     string
	Cluster string // its name in the certificates
	CA      string // PEM
	Gossip  string // the key of gossip
	// AdminCert and AdminKey are of a client with the role admin.
	AdminCert, AdminKey string

	ca *issue.CA
}

// Authority is the CA of all certificates. Its key is in no file.
func (f Files) Authority() *issue.CA { return f.ca }

// materialLife is the validity of the certificates of Material.
const materialLife = 30 * 24 * time.Hour

// Material creates the certificates and keys of a temporary cluster on one machine, in a new or
// empty directory. hosts are the addresses of the peers besides loopback. The key of the CA is
// not kept.
func Material(dir, cluster string, peers []string, hosts ...string) (Files, error) {
	f := Files{
		dir: dir, Cluster: cluster, CA: filepath.Join(dir, certFile), Gossip: filepath.Join(dir, "gossip.key"),
		AdminCert: filepath.Join(dir, "admin.pem"), AdminKey: filepath.Join(dir, "admin-key.pem"),
	}
	until := time.Now().Add(materialLife)
	ca, err := issue.NewCA(cluster, until)
	if err != nil {
		return f, fmt.Errorf("make certificates: %w", err)
	}
	f.ca = ca
	peerCA, err := ca.NewPeerCA(cluster, until)
	if err != nil {
		return f, fmt.Errorf("make certificates: %w", err)
	}
	admin, err := ca.Client("admin", []string{"admin"}, until)
	if err != nil {
		return f, fmt.Errorf("make certificates: %w", err)
	}
	shared := []byte(gossipKey())
	files := []file{
		public(f.CA, ca.Pair.Cert), private(f.Gossip, shared),
		public(filepath.Join(dir, peerCertFile), peerCA.Pair.Cert), private(filepath.Join(dir, peerKeyFile), peerCA.Pair.Key),
		private(f.AdminKey, admin.Key), public(f.AdminCert, admin.Cert),
	}
	for _, id := range peers {
		p, err := ca.Peer(cluster, id, hosts, until)
		if err != nil {
			return f, fmt.Errorf("make certificates: %w", err)
		}
		cert, key := f.Peer(id)
		trust, gossip := f.Shared(id)
		files = append(files, private(key, p.Key), public(cert, p.Cert), public(trust, ca.Pair.Cert),
			private(gossip, shared))
	}
	return f, create(files...)
}

// Peer returns the files of a peer.
func (f Files) Peer(id string) (cert, key string) {
	return filepath.Join(f.dir, "peer-"+id+".pem"), filepath.Join(f.dir, "peer-"+id+"-key.pem")
}

// Shared returns the files of a peer with the same contents on all peers: the trusted CAs, and
// the gossip keys. Each peer has its own copy, as on a host of its own.
func (f Files) Shared(id string) (ca, gossip string) {
	return filepath.Join(f.dir, "peer-"+id+"-ca.pem"), filepath.Join(f.dir, "peer-"+id+"-gossip.key")
}

// ServerArgs returns the flags of a peer's "holdfast server".
func (f Files) ServerArgs(id string) []string {
	cert, key := f.Peer(id)
	ca, gossip := f.Shared(id)
	return []string{"--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--gossip-key-file", gossip}
}

// RenewalArgs returns the flags with which a peer also renews its certificate.
func (f Files) RenewalArgs() []string {
	return []string{"--tls-peer-ca", filepath.Join(f.dir, peerCertFile), "--tls-peer-ca-key",
		filepath.Join(f.dir, peerKeyFile)}
}
