package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/server/netbootapi"
)

// netbootConfig is what a peer is told of machines that boot from the network.
type netbootConfig struct {
	NetbootAddr, NetbootDir string
}

func (c *netbootConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.NetbootAddr, "netboot-addr", "", "`address` of plain HTTP for machines that boot from the network: boot scripts, images and installers, nothing else; the same port on all peers")
	fs.StringVar(&c.NetbootDir, "netboot-dir", "", "`directory` with ipxe.efi, undionly.kpxe and the like, for firmware that has no iPXE (Debian: /usr/lib/ipxe)")
}

func (c *netbootConfig) api() netbootapi.Config {
	_, port, _ := net.SplitHostPort(c.NetbootAddr)
	return netbootapi.Config{Dir: c.NetbootDir, Port: port}
}

// machinesOnly passes on what machines that boot from the network ask for. Firmware knows no certificate of ours, so this goes without TLS: what opens
// anything but one machine's install must not come this way.
func machinesOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/api/v1/boot", "/api/v1/install", "/images/", "/netboot/", "/healthz"} {
			if r.URL.Path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(r.URL.Path, strings.TrimSuffix(prefix, "/")+"/") {
				h.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, "this address is for machines that boot from the network: the other APIs are at --http-addr", http.StatusNotFound)
	})
}

// serve answers machines until ctx ends, if there is an address for them.
func (c *netbootConfig) serve(ctx context.Context, site *http.Server, ln net.Listener) error {
	if ln == nil {
		return nil
	}
	if err := serveHTTP(ctx, site, ln); err != nil {
		return fmt.Errorf("serve machines that boot from the network: %w", err)
	}
	return nil
}

// listen gives the listener for machines, nil for none.
func (c *netbootConfig) listen(ctx context.Context) (net.Listener, error) {
	if c.NetbootAddr == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return listen(ctx, "netboot-addr", c.NetbootAddr)
}
