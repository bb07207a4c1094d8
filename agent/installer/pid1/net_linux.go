package pid1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// linkWait bounds the wait for an interface and its carrier. Switches with spanning
	// tree take half a minute.
	linkWait = 45 * time.Second
	// reachTimeout bounds the attempt to reach a peer through an interface.
	reachTimeout = 5 * time.Second
)

// Network configures the network: with the address of the command line, or with DHCP on every
// interface that has a carrier, of which it uses the first that leads to a peer. It retries until
// an address is assigned or the context ends. The caller must run the lease for as long as it needs
// the network.
func Network(ctx context.Context, l Line, log *slog.Logger) (*Lease, error) {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		if err := netlink.LinkSetUp(lo); err != nil {
			log.Warn("cannot set lo up", "error", err)
		}
	}
	if l.Addr.Prefix.IsValid() {
		link, err := oneLink(ctx, l.only())
		if err != nil {
			return nil, err
		}
		return &Lease{}, use(link, l.Addr, log)
	}
	for try := 0; ; try++ {
		macs := l.only()
		if len(macs) == 0 && try%2 == 0 { // the record may lack the right card, so try all in turn
			macs = present(l.MACs)
		}
		got, err := lease(ctx, l, macs, log)
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
func candidates(macs []string) ([]netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var all []netlink.Link
	for _, link := range links {
		a := link.Attrs()
		if link.Type() != "device" || a.Flags&net.FlagLoopback != 0 || !selected(macs, a.HardwareAddr) {
			continue
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return nil, fmt.Errorf("set %s up: %w", a.Name, err)
		}
		all = append(all, link)
	}
	return all, nil
}

// selected reports whether an interface may be used: its MAC is one of these, if there are any.
func selected(macs []string, mac net.HardwareAddr) bool {
	return len(macs) == 0 || slices.Contains(macs, mac.String())
}

// present returns the addresses of which this machine has an interface.
func present(macs []string) []string {
	var have []string
	if len(macs) == 0 {
		return nil
	}
	links, _ := candidates(macs) // an error is reported by the request for an address
	for _, link := range links {
		have = append(have, link.Attrs().HardwareAddr.String())
	}
	return have
}

// waitLinks waits for an interface with a carrier.
func waitLinks(ctx context.Context, macs []string) ([]netlink.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	for {
		all, err := candidates(macs)
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
			case len(all) == 0 && len(macs) > 0:
				return nil, fmt.Errorf("no network interface has the MAC %s: is its driver in the installer?",
					strings.Join(macs, " or "))
			case len(all) == 0:
				return nil, errors.New("no network interface found: is its driver in the installer?")
			}
			return nil, errors.New("no network interface has a link: is the cable plugged in?")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func oneLink(ctx context.Context, macs []string) (netlink.Link, error) {
	links, err := waitLinks(ctx, macs)
	if err != nil {
		return nil, err
	}
	if len(links) > 1 {
		return nil, fmt.Errorf("use ip=: %d interfaces have a link: select one with mac=%s",
			len(links), links[0].Attrs().HardwareAddr)
	}
	return links[0], nil
}

// answer is the result of the DHCP requests on one interface.
type answer struct {
	link netlink.Link
	from *dhcp
	addr Addr
	err  error
}

// lease requests an address on all interfaces at once, and uses the first through which a peer
// answers. A BMC's USB card answers sooner than any switch, and leads nowhere.
func lease(ctx context.Context, l Line, macs []string, log *slog.Logger) (*Lease, error) {
	links, err := waitLinks(ctx, macs)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(links))
	for _, link := range links {
		go func() {
			from, addr, err := ask(ctx, link.Attrs().Name)
			answers <- answer{link, from, addr, err}
		}()
	}
	var errs []error
	for range links {
		a := <-answers
		name := a.link.Attrs().Name
		if a.err != nil {
			errs = append(errs, fmt.Errorf("%s: no DHCP server answers: %w", name, a.err))
			continue
		}
		if err := useIfReaches(ctx, a, l.URL, log); err != nil {
			errs = append(errs, fmt.Errorf("%s, with the address %s: %w", name, a.addr.Prefix, err))
			log.Warn("not using this interface", "interface", name, "address", a.addr.Prefix, "error", err)
			continue
		}
		return &Lease{from: a.from, length: a.from.length(), log: log}, nil // this ends the other requests
	}
	return nil, errors.Join(errs...)
}

// useIfReaches configures an interface. If no peer answers through it, it undoes that and returns
// an error.
func useIfReaches(ctx context.Context, a answer, base string, log *slog.Logger) error {
	err := use(a.link, a.addr, log)
	if err == nil {
		err = reach(ctx, base)
	}
	if err != nil {
		return errors.Join(err, forget(a.link, a.addr))
	}
	return nil
}

// reach returns an error if the host of a URL does not answer. A refused connection is an answer:
// the network leads to the host, and its peer may be starting.
func reach(ctx context.Context, base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil // reported later, by its user
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[u.Scheme == "https"]
	}
	d := net.Dialer{Timeout: reachTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil
	case err != nil:
		return fmt.Errorf("no peer answers through it: %w", err)
	}
	return conn.Close()
}
