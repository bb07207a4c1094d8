package pid1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// linkWait bounds the wait for an interface and its carrier. Switches with spanning
	// tree take half a minute.
	linkWait = 45 * time.Second
	resolver = "/etc/resolv.conf"
)

// Network configures the network: with the address of the command line, or with DHCP on
// every interface that has a carrier. It retries until an address is assigned or the
// context ends. The caller must run the lease for as long as it needs the network.
func Network(ctx context.Context, l Line, log *slog.Logger) (*Lease, error) {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			log.Warn("cannot set lo up", "error", err)
		}
	}
	if l.Addr.Prefix.IsValid() {
		link, err := oneLink(ctx, l.MAC)
		if err != nil {
			return nil, err
		}
		return &Lease{}, use(link, l.Addr, log)
	}
	for {
		got, err := lease(ctx, l.MAC, log)
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("get an address: %w (last: %w)", context.Cause(ctx), err)
		}
		log.Warn("no address yet, will retry", "error", err)
	}
}

// candidates sets up the interfaces that may lead to the peers, and returns them.
func candidates(mac string) ([]netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var all []netlink.Link
	for _, link := range links {
		a := link.Attrs()
		if link.Type() != "device" || a.Flags&net.FlagLoopback != 0 || mac != "" && a.HardwareAddr.String() != mac {
			continue
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return nil, fmt.Errorf("set %s up: %w", a.Name, err)
		}
		all = append(all, link)
	}
	return all, nil
}

// waitLinks waits for an interface with a carrier.
func waitLinks(ctx context.Context, mac string) ([]netlink.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	for {
		all, err := candidates(mac)
		var ready []netlink.Link
		for _, link := range all {
			if link.Attrs().OperState == netlink.OperUp || link.Attrs().RawFlags&0x10000 != 0 { // IFF_LOWER_UP
				ready = append(ready, link)
			}
		}
		if len(ready) > 0 {
			return ready, nil
		}
		select {
		case <-ctx.Done():
			switch {
			case err != nil:
				return nil, err
			case len(all) == 0 && mac != "":
				return nil, fmt.Errorf("no network interface has the MAC %s: is its driver in the installer?", mac)
			case len(all) == 0:
				return nil, errors.New("no network interface found: is its driver in the installer?")
			}
			return nil, errors.New("no network interface has a link: is the cable plugged in?")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func oneLink(ctx context.Context, mac string) (netlink.Link, error) {
	links, err := waitLinks(ctx, mac)
	if err != nil {
		return nil, err
	}
	if len(links) > 1 {
		return nil, fmt.Errorf("use ip=: %d interfaces have a link: select one with mac=%s",
			len(links), links[0].Attrs().HardwareAddr)
	}
	return links[0], nil
}

// lease requests an address on all interfaces at once and uses the first response.
func lease(ctx context.Context, mac string, log *slog.Logger) (*Lease, error) {
	links, err := waitLinks(ctx, mac)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		link netlink.Link
		from *dhcp
		addr Addr
		err  error
	}
	answers := make(chan answer, len(links))
	for _, link := range links {
		go func() {
			from, addr, err := ask(ctx, link.Attrs().Name)
			answers <- answer{link, from, addr, err}
		}()
	}
	var errs []error
	var got *answer
	for range links {
		a := <-answers
		if a.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.link.Attrs().Name, a.err))
			continue
		}
		if got == nil {
			got = &a
			cancel() // the other requests
		}
	}
	if got == nil {
		return nil, fmt.Errorf("no DHCP server answers: %w", errors.Join(errs...))
	}
	return &Lease{from: got.from, length: got.from.length(), log: log}, use(got.link, got.addr, log)
}

// use sets the address, the default route and the name servers.
func use(link netlink.Link, a Addr, log *slog.Logger) error {
	name := link.Attrs().Name
	mask := net.CIDRMask(a.Prefix.Bits(), 32)
	to := &netlink.Addr{IPNet: &net.IPNet{IP: a.Prefix.Addr().AsSlice(), Mask: mask}}
	if err := netlink.AddrReplace(link, to); err != nil {
		return fmt.Errorf("assign to %s the address %s: %w", name, a.Prefix, err)
	}
	if a.Gateway.IsValid() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: a.Gateway.AsSlice()}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("set the default route to %s: %w", a.Gateway, err)
		}
	}
	var conf strings.Builder
	for _, d := range a.DNS {
		fmt.Fprintf(&conf, "nameserver %s\n", d)
	}
	if err := os.WriteFile(resolver, []byte(conf.String()), 0o644); err != nil { //nolint:gosec // readable by all
		return fmt.Errorf("write the name servers: %w", err)
	}
	log.Info("network is up",
		"interface", name, "mac", link.Attrs().HardwareAddr.String(), "address", a.Prefix, "gateway", a.Gateway)
	return nil
}
