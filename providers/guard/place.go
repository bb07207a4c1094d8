package guard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Dial returns a function that connects to the endpoint of a machine within a time. If the endpoint
// is a name, it must not lead to this host, to a link-local address or to the metadata service of
// a cloud: who owns a name can point it there after it was entered. An address, or localhost, was
// checked when it was entered.
func Dial(most time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := &net.Dialer{Timeout: most}
		if host, _, err := net.SplitHostPort(addr); err == nil && isName(host) {
			d.Control = elsewhere
		}
		return d.DialContext(ctx, network, addr)
	}
}

// isName reports whether a host is a name that a name server resolves.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && !strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// elsewhere refuses an address to which no name of a machine leads.
func elsewhere(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: not an address", address)
	}
	a := at.Addr().Unmap().WithZone("")
	if a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a == netip.MustParseAddr("fd00:ec2::254") {
		return fmt.Errorf("connect to %s: a name must not lead to this host or a link-local address: "+
			"correct the name, or enter the address itself", a)
	}
	return nil
}
