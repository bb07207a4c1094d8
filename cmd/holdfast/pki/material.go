package pki

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

// Files are where the certificates, keys and gossip keys of a cluster lie.
type Files struct {
	dir     string
	Cluster string // its name in the certificates
	CA      string // PEM
	Gossip  string // the key of gossip
	// AdminCert and AdminKey are of a client with the role admin.
	AdminCert, AdminKey string
}

// materialLife is how long what Material makes is good.
const materialLife = 30 * 24 * time.Hour

// Material makes all that a cluster needs for its own sake, in a directory that is new or empty: for clusters that
// live on one machine for a while. hosts are the addresses of the peers besides loopback. The key of the CA is not kept.
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
	admin, err := ca.Client("admin", []string{"admin"}, until)
	if err != nil {
		return f, fmt.Errorf("make certificates: %w", err)
	}
	files := []file{{f.CA, ca.Pair.Cert}, {f.Gossip, []byte(gossipKey())}, {f.AdminKey, admin.Key}, {f.AdminCert, admin.Cert}}
	for _, id := range peers {
		p, err := ca.Peer(cluster, id, hosts, until)
		if err != nil {
			return f, fmt.Errorf("make certificates: %w", err)
		}
		cert, key := f.Peer(id)
		files = append(files, file{key, p.Key}, file{cert, p.Cert})
	}
	return f, create(files...)
}

// Peer gives the files of a peer.
func (f Files) Peer(id string) (cert, key string) {
	return filepath.Join(f.dir, "peer-"+id+".pem"), filepath.Join(f.dir, "peer-"+id+"-key.pem")
}

// ServerArgs gives the flags of a peer's "holdfast server".
func (f Files) ServerArgs(id string) []string {
	cert, key := f.Peer(id)
	return []string{"--tls-ca", f.CA, "--tls-cert", cert, "--tls-key", key, "--gossip-key-file", f.Gossip}
}
