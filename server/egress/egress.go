// Package egress decides from which networks a peer and its BMCs must not fetch URLs.
// Metadata services of clouds and other link-local addresses must not be used as sources of
// images and virtual media, or as targets of webhooks.
//
// It owns the rule. It does not know the purpose of a URL.
package egress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"

	"github.com/holdfast-metal/holdfast/internal/hostaddr"
)

// Default returns the networks that are denied by default: the link-local ones and the metadata
// services of clouds.
func Default() []string {
	return append([]string{"169.254.0.0/16", "fe80::/10"}, hostaddr.Metadata()...)
}

// Policy is a list of denied networks. The zero value denies none.
type Policy struct{ denied []netip.Prefix }

// New returns a policy that denies the given networks. Each is a prefix such as 10.0.0.0/8
// or a single address. "none" alone denies nothing.
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
	if inner, ok := hostaddr.Within(a); ok && p.denies(inner) {
		return true
	}
	return slices.ContainsFunc(p.denied, func(n netip.Prefix) bool { return n.Contains(a) })
}

// CheckURL returns an error if the host of a URL is an address of a denied network. A name
// is not resolved here, because the client may resolve it differently.
func (p *Policy) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // malformed URLs are reported by another check
	}
	a, ok := hostaddr.Of(u.Hostname())
	if !ok || !p.denies(a) {
		return nil // the host is a name
	}
	return fmt.Errorf("%s is on a network denied by --deny-urls: use an address that clients may fetch from", a)
}

// Transport returns a copy of http.DefaultTransport that refuses to connect to denied
// networks. The check is made on the resolved address, so names and redirects cannot bypass
// it.
func (p *Policy) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it always is
	t.DialContext = (&net.Dialer{Control: p.control}).DialContext
	return t
}

func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: not an address", address)
	}
	if p.denies(at.Addr()) {
		return fmt.Errorf("connect to %s: the address is on a network denied by --deny-urls", at.Addr())
	}
	return nil
}
