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
	// linkWait is how long an interface may take to show up, or to find its carrier: switches with
	// spanning tree take half a minute.
	linkWait = 45 * time.Second
	resolver = "/etc/resolv.conf"
)

// Network brings the machine on its network: with the address of the command line, or by DHCP on
// every interface that has a carrier, until one gets an answer. It goes on until the context ends.
// Whoever calls it has to run the lease for as long as the network is wanted.
func Network(ctx context.Context, l Line, log *slog.Logger) (*Lease, error) {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			log.Warn("lo is not up", "error", err)
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
		log.Warn("no address yet, trying on", "error", err)
	}
}

// candidates are the interfaces that may lead to the peers, up.
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

// waitLinks waits until there is an interface with a carrier.
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
				return nil, fmt.Errorf("there is no network interface with the MAC %s: is its driver in the installer?", mac)
			case len(all) == 0:
				return nil, errors.New("there is no network interface: is its driver in the installer?")
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
		return nil, fmt.Errorf("use ip=: %d interfaces have a link: say which one with mac=%s", len(links), links[0].Attrs().HardwareAddr)
	}
	return links[0], nil
}

// lease asks on all interfaces at once and takes the first answer.
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
			cancel() // the others
		}
	}
	if got == nil {
		return nil, fmt.Errorf("no DHCP server answers: %w", errors.Join(errs...))
	}
	return &Lease{from: got.from, length: got.from.length(), log: log}, use(got.link, got.addr, log)
}

// use sets the address, the way out and the name servers.
func use(link netlink.Link, a Addr, log *slog.Logger) error {
	name := link.Attrs().Name
	to := &netlink.Addr{IPNet: &net.IPNet{IP: a.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(a.Prefix.Bits(), 32)}}
	if err := netlink.AddrReplace(link, to); err != nil {
		return fmt.Errorf("give %s the address %s: %w", name, a.Prefix, err)
	}
	if a.Gateway.IsValid() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: a.Gateway.AsSlice()}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("go out through %s: %w", a.Gateway, err)
		}
	}
	var conf strings.Builder
	for _, d := range a.DNS {
		fmt.Fprintf(&conf, "nameserver %s\n", d)
	}
	if err := os.WriteFile(resolver, []byte(conf.String()), 0o644); err != nil { //nolint:gosec // anybody may read it
		return fmt.Errorf("write the name servers: %w", err)
	}
	log.Info("network is up", "interface", name, "mac", link.Attrs().HardwareAddr.String(), "address", a.Prefix, "gateway", a.Gateway)
	return nil
}
