package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
	"github.com/holdfast-metal/holdfast/server/netbootapi/neighbor"
	"github.com/holdfast-metal/holdfast/server/pxe"
)

// netbootConfig configures netboot.
type netbootConfig struct {
	NetbootAddr, NetbootDir, Netboot string
	NetbootRouted                    []string
}

func (c *netbootConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.NetbootAddr, "netboot-addr", "",
		"`address` of plain HTTP for machines that boot from the network: boot scripts, images and installers, nothing "+
			"else; the same port on all peers")
	fs.StringVar(&c.NetbootDir, "netboot-dir", "",
		"`directory` with ipxe.efi, undionly.kpxe and the like, for firmware without iPXE (Debian: /usr/lib/ipxe)")
	fs.StringVar(&c.Netboot, "netboot", "",
		"network `interface` for ProxyDHCP (beside your DHCP server) and TFTP; requires --netboot-addr and --netboot-dir")
	fs.StringSliceVar(&c.NetbootRouted, "netboot-routed", nil,
		"`networks` behind routers, such as 10.8.0.0/16, whose machines may boot from this peer: their MAC addresses are "+
			"believed; all other callers must be neighbors with the MAC address of the machine they name")
}

// api returns the configuration of the HTTP API. An insecure peer is on loopback addresses only:
// then machines are processes of this host.
func (c *netbootConfig) api(insecure bool) netbootapi.Config {
	_, port, _ := net.SplitHostPort(c.NetbootAddr)
	routed, _ := c.routed() // checked before
	if insecure {
		routed = append(routed, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	return netbootapi.Config{Dir: c.NetbootDir, Port: port, Neighbors: neighbor.MAC, Routed: routed}
}

// routed returns the networks of --netboot-routed.
func (c *netbootConfig) routed() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range c.NetbootRouted {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("read --netboot-routed %q: want networks such as 10.8.0.0/16 or fd00:8::/64, separated by "+
				"commas", text)
		}
		all = append(all, p)
	}
	return all, nil
}

// firmware returns the DHCP and TFTP server for firmware, or nil.
func (c *netbootConfig) firmware(installs pxe.Installs, log *slog.Logger) (*pxe.Server, error) {
	if c.Netboot == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	if c.NetbootAddr == "" || c.NetbootDir == "" {
		return nil, errors.New("read --netboot: it needs --netboot-addr, where machines get their boot scripts, and " +
			"--netboot-dir, with the programs that firmware starts")
	}
	name, port, err := net.SplitHostPort(c.NetbootAddr)
	if err != nil {
		return nil, fmt.Errorf("read --netboot-addr %q: %w", c.NetbootAddr, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read --netboot-addr %q: want a port number with --netboot", c.NetbootAddr)
	}
	host, err := netip.ParseAddr(name)
	if err != nil || host.IsUnspecified() {
		if host, err = addressOf(c.Netboot); err != nil {
			return nil, err
		}
	}
	return pxe.New(pxe.Config{Interface: c.Netboot, Host: host.Unmap(), BootPort: uint16(number), Dir: c.NetbootDir,
		Logger: log}, installs)
}

// check returns an error if the settings of netboot do not fit together.
func (c *netbootConfig) check() error {
	_, err := c.firmware(nil, slog.New(slog.DiscardHandler))
	return err
}

// addressOf returns the first IPv4 address of an interface.
func addressOf(name string) (netip.Addr, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read --netboot %q: %w: name an interface of this host (ip link)", name, err)
	}
	all, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read --netboot %q: %w", name, err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("read --netboot %q: it has no IPv4 address, and --netboot-addr names none", name)
}

// serveFirmware serves firmware until ctx ends. InstallService selects the boot program of a
// machine, as it does its boot script.
func (c *netbootConfig) serveFirmware(ctx context.Context, rpc grpc.ClientConnInterface, log *slog.Logger) error {
	s, err := c.firmware(holdfastv1.NewInstallServiceClient(rpc), log)
	if s == nil || err != nil {
		return err
	}
	return s.Run(ctx)
}

// machinesOnly allows the requests of machines that boot from the network. Firmware cannot
// verify our certificates, so this handler has no TLS: it must only give access to the install
// of one machine.
func machinesOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !under(r.URL.Path, "/api/v1/boot", "/api/v1/install", "/images", "/netboot", "/healthz") {
			http.Error(w, "this address is for machines that boot from the network: the other APIs are at --http-addr",
				http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// notMachines returns a handler for --http-addr. With --netboot-addr it serves no boot scripts
// and no install sessions: a MAC address is enough to get a boot script, so only the machines'
// network may request one.
func (c *netbootConfig) notMachines(h http.Handler) http.Handler {
	if c.NetbootAddr == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if under(r.URL.Path, "/api/v1/boot", "/api/v1/install") {
			http.Error(w, "boot scripts and install sessions are served at --netboot-addr only", http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// under reports whether path equals one of the prefixes or is below it.
func under(path string, others ...string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return path == o || strings.HasPrefix(path, o+"/") })
}

// serve serves machines until ctx ends, if there is a listener for them.
func (c *netbootConfig) serve(ctx context.Context, site *http.Server, ln net.Listener) error {
	if ln == nil {
		return nil
	}
	if err := serveHTTP(ctx, site, ln); err != nil {
		return fmt.Errorf("serve machines that boot from the network: %w", err)
	}
	return nil
}
