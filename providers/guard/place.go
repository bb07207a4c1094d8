package guard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-metal/holdfast/internal/hostaddr"
)

// Dial returns a function that connects to the endpoint of a machine within a time. If the endpoint
// is a name, it must not lead to this host, to a link-local address or to the metadata service of
// a cloud: who owns a name can point it there after it was entered. An address, or localhost, was
// checked when it was entered.
func Dial(most time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := &net.Dialer{Timeout: most}
		if host, _, err := net.SplitHostPort(addr); err == nil && isName(host) {
			d.Control = refuseAddress
		}
		return d.DialContext(ctx, network, addr)
	}
}

// isName reports whether a host is a name that a name server resolves.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && !strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// Resolve returns the address of a host for a program that connects by itself. It has the rule of
// Dial: the program gets the address that was checked, not the name, which could lead elsewhere by
// then.
func Resolve(ctx context.Context, host string) (string, error) {
	return resolve(ctx, host, net.DefaultResolver.LookupNetIP)
}

func resolve(
	ctx context.Context, host string, lookup func(context.Context, string, string) ([]netip.Addr, error),
) (string, error) {
	if !isName(host) {
		return host, nil
	}
	found, err := lookup(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	var refused error
	for _, a := range found {
		a = a.Unmap()
		if refused = allowed(a); refused == nil {
			return a.String(), nil
		}
	}
	if refused == nil {
		refused = fmt.Errorf("look up %s: it has no address", host)
	}
	return "", refused
}

// refuseAddress refuses an address to which no name of a machine leads.
func refuseAddress(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: not an address", address)
	}
	return allowed(at.Addr())
}

// Reserved reports whether an address is that of this host, link-local, or the metadata service of
// a cloud, also within an address of IPv6 that leads there.
func Reserved(a netip.Addr) bool { return hostaddr.Reserved(a) != "" }

func allowed(a netip.Addr) error {
	if Reserved(a) {
		return fmt.Errorf("connect to %s: a name must not lead to this host or a link-local address: "+
			"correct the name, or enter the address itself", a.Unmap().WithZone(""))
	}
	return nil
}
