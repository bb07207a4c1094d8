package pid1

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

const (
	// dhcpTry bounds one DHCP request, and dhcpTries how many are sent before the
	// interfaces are listed again.
	dhcpTry   = 3 * time.Second
	dhcpTries = 3
	// unsaid is the length of a DHCP lease if the server omits it, which it must not.
	unsaid = time.Hour
)

// dhcp is a DHCP lease on one interface. It implements lessor.
type dhcp struct {
	name  string
	lease *nclient4.Lease
}

// ask obtains a DHCP lease on one interface.
func ask(ctx context.Context, name string) (*dhcp, Addr, error) {
	d := &dhcp{name: name}
	if _, err := d.do(func(c *nclient4.Client) (*nclient4.Lease, error) { return c.Request(ctx) }); err != nil {
		return nil, Addr{}, err
	}
	addr, err := d.addr()
	return d, addr, err
}

// do makes a DHCP exchange and stores its lease.
func (d *dhcp) do(question func(*nclient4.Client) (*nclient4.Lease, error)) (length time.Duration, err error) {
	c, err := nclient4.New(d.name, nclient4.WithTimeout(dhcpTry), nclient4.WithRetry(dhcpTries))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	lease, err := question(c)
	if err != nil {
		return 0, err
	}
	d.lease = lease
	return d.length(), nil
}

// length returns the length of the DHCP lease.
func (d *dhcp) length() time.Duration { return d.lease.ACK.IPAddressLeaseTime(unsaid) }

// addr returns the address and the other settings from the server.
func (d *dhcp) addr() (addr Addr, err error) { return addrOf(d.lease.ACK) }

// microsoftRoutes is the code under which servers send static routes to Windows, in the form of
// option 121. Some send nothing else.
const microsoftRoutes = dhcpv4.GenericOptionCode(249)

// addrOf returns the settings in the acknowledgement of a server. If that has no netmask, which is
// optional (RFC 2132 §3.3), the class of the address decides, as in the kernel.
func addrOf(ack *dhcpv4.DHCPv4) (addr Addr, err error) {
	ip, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	mask := ack.SubnetMask()
	if mask == nil {
		mask = ack.YourIPAddr.DefaultMask()
	}
	ones, size := mask.Size()
	if !ok || ip.IsUnspecified() || size == 0 {
		return Addr{}, fmt.Errorf("the lease has no address or netmask: %s", ack.Summary())
	}
	addr.Prefix = netip.PrefixFrom(ip, ones)
	for _, r := range ack.Router() {
		if via, ok := netip.AddrFromSlice(r.To4()); ok && !via.IsUnspecified() && !addr.Gateway.IsValid() {
			addr.Gateway = via
		}
	}
	routes := ack.ClasslessStaticRoute()
	if raw := ack.Options.Get(microsoftRoutes); len(routes) == 0 && len(raw) > 0 {
		var others dhcpv4.Routes
		if others.FromBytes(raw) == nil { // else they cost only themselves
			routes = others
		}
	}
	for _, r := range routes {
		if route, ok := staticRoute(r); ok {
			addr.Routes = append(addr.Routes, route)
		}
	}
	for _, s := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(s.To4()); ok {
			addr.DNS = append(addr.DNS, a)
		}
	}
	return addr, nil
}

// staticRoute returns a route of option 121, or false if it cannot be used.
func staticRoute(r *dhcpv4.Route) (Route, bool) {
	if r == nil || r.Dest == nil {
		return Route{}, false
	}
	to, ok := netip.AddrFromSlice(r.Dest.IP.To4())
	ones, size := r.Dest.Mask.Size()
	via, okVia := netip.AddrFromSlice(r.Router.To4())
	return Route{To: netip.PrefixFrom(to, ones).Masked(), Via: via}, ok && okVia && size == 32
}

// Renew implements lessor.
func (d *dhcp) Renew(ctx context.Context) (time.Duration, error) {
	length, err := d.do(func(c *nclient4.Client) (*nclient4.Lease, error) { return c.Renew(ctx, d.lease) })
	if err != nil {
		return 0, fmt.Errorf("renew the DHCP lease of %s: %w", d.name, err)
	}
	return length, nil
}

// Again implements lessor. It does not accept another address than the current one, because
// the image is being downloaded over it.
func (d *dhcp) Again(ctx context.Context) (time.Duration, error) {
	ip := d.lease.ACK.YourIPAddr
	length, err := d.do(func(c *nclient4.Client) (*nclient4.Lease, error) {
		offer, err := c.DiscoverOffer(ctx, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip)))
		if err != nil {
			return nil, err
		}
		if !offer.YourIPAddr.Equal(ip) {
			return nil, fmt.Errorf("the server offers %s instead of %s", offer.YourIPAddr, ip)
		}
		return c.RequestFromOffer(ctx, offer)
	})
	if err != nil {
		return 0, fmt.Errorf("ask for %s on %s again: %w", ip, d.name, err)
	}
	return length, nil
}
