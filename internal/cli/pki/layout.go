package pki

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// Layouts: where the configuration of a peer finds its files.
const (
	layoutHere     = "here"     // where they were created
	layoutPackages = "packages" // docs/packages.md; keys are systemd credentials
)

// adminName is the user in the certificate of the first admin.
const adminName = "admin"

// defaultPort is that of gRPC. HTTP, Raft and gossip have the next ones.
const defaultPort = 7400

// initPeer is one peer of a new cluster.
type initPeer struct {
	id, host string
	port     int
}

// at returns an address of the peer: 0 is gRPC, 1 HTTP, 2 Raft, 3 gossip.
func (p initPeer) at(service int) string {
	return net.JoinHostPort(p.host, strconv.Itoa(p.port+service))
}

// parsePeers parses ID=HOST[:PORT].
func parsePeers(specs []string) ([]initPeer, error) {
	if len(specs) == 0 {
		return nil, errors.New("want --peer ID=HOST for each peer: three survive the loss of one")
	}
	var peers []initPeer
	for _, spec := range specs {
		id, at, ok := strings.Cut(spec, "=")
		p := initPeer{id: id, host: strings.Trim(at, "[]"), port: defaultPort}
		if host, port, err := net.SplitHostPort(at); err == nil {
			p.host = host
			if p.port, err = strconv.Atoi(port); err != nil || p.port < 1 || p.port > 65532 {
				return nil, fmt.Errorf("--peer %q: want a port of 1 to 65532", spec)
			}
		}
		if !ok || p.host == "" || strings.ContainsAny(p.host, " /@#'\"") {
			return nil, fmt.Errorf("--peer %q: want ID=HOST or ID=HOST:PORT", spec)
		}
		if err := peertls.CheckName("peer id", id); err != nil {
			return nil, fmt.Errorf("--peer %q: %w", spec, err)
		}
		if id == "ca" || id == adminName {
			return nil, fmt.Errorf("--peer %q: the directory %s is for other files: choose another id", spec, id)
		}
		if err := peertls.CheckHost(p.host); err != nil {
			return nil, fmt.Errorf("--peer %q: %w", spec, err)
		}
		if ip := net.ParseIP(p.host); ip != nil && ip.IsUnspecified() {
			return nil, fmt.Errorf("--peer %q: want the address that others use for the peer", spec)
		}
		if slices.ContainsFunc(peers, func(q initPeer) bool { return q.id == id || q.at(0) == p.at(0) }) {
			return nil, fmt.Errorf("--peer %q: another peer has this id or address", spec)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// others returns the gossip addresses of all peers but one.
func others(p initPeer, peers []initPeer) []string {
	var join []string
	for _, q := range peers {
		if q.id != p.id {
			join = append(join, q.at(3))
		}
	}
	return join
}

// founders returns how many of the peers form the cluster: an odd number of voters, of which a
// server accepts at most seven. The others join.
func founders(peers int) int { return min(7, peers-1+peers%2) }

// config returns the configuration of a peer that joins at these gossip addresses. expect is the
// number of founders; 0 if the cluster is there.
func (f *initFlags) config(p initPeer, join []string, expect int) string {
	quoted := make([]string, 0, len(join))
	for _, at := range join {
		quoted = append(quoted, strconv.Quote(at))
	}
	dir := filepath.Join(f.abs, p.id)
	data, cert := filepath.Join(dir, "data"), dir
	key := func(_, name string) string { return strconv.Quote(filepath.Join(dir, "keys", name)) }
	if f.layout == layoutPackages {
		data, cert = "/var/lib/holdfast", "/etc/holdfast"
		key = func(credential, _ string) string { return "credential:" + credential }
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	fmt.Fprintf(&b, "# Peer %s of cluster %s, made by holdfast tls init. docs/operating.md describes the keys.\n",
		p.id, f.cluster)
	line("node_id", strconv.Quote(p.id))
	line("data_dir", strconv.Quote(data))
	for i, name := range []string{"grpc_addr", "http_addr", "raft_addr", "gossip_addr"} {
		line(name, strconv.Quote(p.at(i)))
	}
	if expect > 0 {
		line("bootstrap_expect", strconv.Itoa(expect))
	}
	if len(quoted) > 0 {
		line("join", "["+strings.Join(quoted, ", ")+"]")
	}
	line("tls_ca", strconv.Quote(filepath.Join(cert, certFile)))
	line("tls_cert", strconv.Quote(filepath.Join(cert, "peer.pem")))
	line("tls_key", key("tls-key", "peer-key.pem"))
	if f.renew {
		line("tls_peer_ca", strconv.Quote(filepath.Join(cert, peerCertFile)))
		line("tls_peer_ca_key", key("peer-ca-key", peerKeyFile))
	}
	line("gossip_key_file", key("gossip-key", "gossip.key"))
	line("secrets_key_file", key("secrets-keys", "secrets.keys"))
	return b.String()
}

// summary names the directories and the next commands.
func (f *initFlags) summary(peers []initPeer) string {
	var b strings.Builder
	dir := func(name, use string) { fmt.Fprintf(&b, "%s  %s\n", filepath.Join(f.out, name), use) }
	dir("ca", "the CA of cluster "+f.cluster+": keep its key away from the peers")
	for _, p := range peers {
		dir(p.id, "the files of peer "+p.id+" at "+p.host)
	}
	dir(adminName, "the certificate of the first admin")
	b.WriteString("next:\n")
	for _, p := range peers {
		b.WriteString(f.start(p))
	}
	admin := filepath.Join(f.out, adminName)
	fmt.Fprintf(&b, "  export HOLDFAST_ADDR=%s HOLDFAST_CA=%s/%s HOLDFAST_CERT=%s/%s.pem HOLDFAST_KEY=%s/%s-key.pem\n",
		peers[0].at(0), admin, certFile, admin, adminName, admin, adminName)
	b.WriteString("  holdfast cluster status --wait\n")
	return b.String()
}

// start returns the command that starts a peer.
func (f *initFlags) start(p initPeer) string {
	if f.layout == layoutPackages {
		return fmt.Sprintf("  tar -C %s -c . | ssh root@%s 'tar -C /etc/holdfast --no-overwrite-dir --no-same-owner -x && "+
			"systemctl enable --now holdfast'\n", filepath.Join(f.out, p.id), p.host)
	}
	return fmt.Sprintf("  holdfast server --config %s &\n", filepath.Join(f.out, p.id, "config.yaml"))
}
