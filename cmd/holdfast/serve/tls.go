package serve

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/cluster/clock"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/internal/peercert"
	"github.com/holdfast-metal/holdfast/server/connlimit"
)

// tlsConfig names the certificates of a peer and the keys of gossip.
type tlsConfig struct {
	TLSCA, TLSCert, TLSKey, GossipKeyFile string

	peers peercert.Config
}

func (c *tlsConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.TLSCA, "tls-ca", "", "`file` with the CA certificates of the cluster, PEM")
	fs.StringVar(&c.TLSCert, "tls-cert", "",
		"`file` with this peer's certificate, PEM (see: holdfast tls cert create --help)")
	fs.StringVar(&c.TLSKey, "tls-key", "",
		"`file` with its key, PEM, not readable by others; credential:NAME is a credential of systemd")
	fs.StringVar(&c.GossipKeyFile, "gossip-key-file", "",
		"`file` with the gossip keys, one per line: the first encrypts, all decrypt")
	c.peers.Flags(fs)
}

// settle requires all of them, or none with --insecure.
func (c *tlsConfig) settle(insecure bool, id string) error {
	keys := []struct{ flag, value, made string }{
		{"tls-ca", c.TLSCA, "holdfast tls ca create"},
		{"tls-cert", c.TLSCert, "holdfast tls cert create --peer " + id},
		{"tls-key", c.TLSKey, "holdfast tls cert create --peer " + id},
		{"gossip-key-file", c.GossipKeyFile, "holdfast gossip keygen"},
	}
	var given, missing []string
	for _, k := range keys {
		if k.value == "" {
			missing = append(missing, fmt.Sprintf("--%s (made by: %s)", k.flag, k.made))
		} else {
			given = append(given, "--"+k.flag)
		}
	}
	switch {
	case insecure && len(given) > 0:
		return fmt.Errorf("leave out --insecure or --dev, or %s: both mean no TLS", strings.Join(given, ", "))
	case !insecure && len(missing) > 0:
		return fmt.Errorf("set %s; or pass --insecure to serve without TLS and authentication, on loopback addresses only",
			strings.Join(missing, ", "))
	}
	return c.peers.Check(insecure)
}

// open reads the certificates; without TLS the store is nil. A renewed certificate is in the data
// directory.
func (c *tlsConfig) open(
	insecure bool, id, dataDir string, clock *clock.Clock, log *slog.Logger, reg prometheus.Registerer,
) (*peertls.Store, error) {
	if insecure {
		return nil, nil
	}
	cfg := peertls.Config{CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey, PeerID: id,
		Now: clock.Now, Latest: clock.Latest, Logger: log, Registerer: reg}
	if c.peers.CA != "" {
		cfg.PeerCA, cfg.Renewed, cfg.Life = c.peers.CA, filepath.Join(dataDir, peertls.RenewedFile), c.peers.Lasts()
	}
	return peertls.Open(cfg)
}

// secured returns a listener that closes connections when their certificates are replaced, and
// the options for its gRPC server.
func secured(store *peertls.Store, limit *connlimit.Limiter, l net.Listener) (net.Listener, []grpc.ServerOption) {
	if store == nil {
		return l, nil
	}
	return peertls.Listen(l), []grpc.ServerOption{grpc.Creds(limit.Credentials(credentials.NewTLS(store.API())))}
}

// clusterOf returns the name of the cluster in the peer's certificate.
func clusterOf(store *peertls.Store) string {
	if store == nil {
		return ""
	}
	return store.Cluster()
}
