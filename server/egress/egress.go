// Package egress decides which networks a peer and the BMCs that it drives must not fetch URLs
// from: metadata services of clouds and other link-local services are no place for an image, a
// virtual medium or a webhook.
//
// It owns the rule. It must not know what a URL is for.
package egress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// Default lists the networks that are denied unless an operator says otherwise: link-local
// addresses.
func Default() []string { return []string{"169.254.0.0/16", "fe80::/10"} }

// Policy is a list of denied networks. The zero value denies none.
type Policy struct{ denied []netip.Prefix }

// New returns the policy that denies networks, each such as 10.0.0.0/8 or an address. "none" alone
// denies none.
func New(networks []string) (*Policy, error) {
	p := &Policy{}
	if len(networks) == 1 && networks[0] == "none" {
		return p, nil
	}
	for _, n := range networks {
		prefix, err := netip.ParsePrefix(n)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(n); err != nil {
				return nil, fmt.Errorf("read denied network %q: want a network such as 169.254.0.0/16", n)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		p.denied = append(p.denied, prefix.Masked())
	}
	return p, nil
}

func (p *Policy) denies(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p.denied, func(n netip.Prefix) bool { return n.Contains(a) })
}

// CheckURL returns an error if the host of a URL is an address of a denied network. A name is not
// looked up: the client that resolves it may see another network than this peer.
func (p *Policy) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // another check says what is wrong with it
	}
	a, err := netip.ParseAddr(strings.Trim(u.Hostname(), "[]"))
	if err != nil || !p.denies(a) {
		return nil //nolint:nilerr // a name
	}
	return fmt.Errorf("is on a network that --deny-urls names (%s): use an address that clients may fetch from", a)
}

// Transport returns a transport like http.DefaultTransport that connects to no address of a denied
// network, whatever name led there.
func (p *Policy) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	t.DialContext = (&net.Dialer{Control: p.control}).DialContext
	return t
}

func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: not an address", address)
	}
	if p.denies(at.Addr()) {
		return fmt.Errorf("connect to %s: it is on a network that --deny-urls names", at.Addr())
	}
	return nil
}
