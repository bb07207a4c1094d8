package pid1

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

const resolver = "/etc/resolv.conf"

// use sets the address, the routes and the name servers.
func use(link netlink.Link, a Addr, log *slog.Logger) error {
	if err := configure(link, a); err != nil {
		return err
	}
	var conf strings.Builder
	for _, d := range a.DNS {
		fmt.Fprintf(&conf, "nameserver %s\n", d)
	}
	if err := os.WriteFile(resolver, []byte(conf.String()), 0o644); err != nil { //nolint:gosec // readable by all
		return fmt.Errorf("write the name servers: %w", err)
	}
	log.Info("network is up", "interface", link.Attrs().Name, "mac", link.Attrs().HardwareAddr.String(),
		"address", a.Prefix, "gateway", a.Gateway)
	return nil
}

// configure sets the address and the routes.
func configure(link netlink.Link, a Addr) error {
	if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: network(a.Prefix)}); err != nil {
		return fmt.Errorf("assign to %s the address %s: %w", link.Attrs().Name, a.Prefix, err)
	}
	for _, r := range a.routes() {
		if err := netlink.RouteReplace(kernelRoute(link, r)); err != nil {
			return fmt.Errorf("set the route to %s through %s: %w", r.To, r.Via, err)
		}
	}
	return nil
}

// forget undoes configure. An address takes its routes with it.
func forget(link netlink.Link, a Addr) error {
	var errs []error
	for _, r := range a.routes() {
		_ = netlink.RouteDel(kernelRoute(link, r)) // it may be missing
	}
	if err := netlink.AddrDel(link, &netlink.Addr{IPNet: network(a.Prefix)}); err != nil {
		errs = append(errs, fmt.Errorf("remove from %s the address %s: %w", link.Attrs().Name, a.Prefix, err))
	}
	return errors.Join(errs...)
}

// kernelRoute returns a route as the kernel has it. A router need not be in the network of the
// address: in routed fabrics an address is a /32, and its router is reached on the link.
func kernelRoute(link netlink.Link, r Route) *netlink.Route {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network(r.To)}
	if !r.Via.IsValid() || r.Via.IsUnspecified() {
		route.Scope = netlink.SCOPE_LINK
		return route
	}
	route.Gw = r.Via.AsSlice()
	route.SetFlag(netlink.FLAG_ONLINK)
	return route
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
