// Package egress decides from which networks a peer and its BMCs must not fetch URLs.
// Metadata services of clouds and other link-local addresses must not be used as sources of
// images and virtual media, or as targets of webhooks.
//
// It owns the rule. It does not know the purpose of a URL.
package egress

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Default returns the networks that are denied by default: the link-local ones and the metadata
// service of a cloud, also by way of an IPv6 address that contains theirs.
func Default() []string {
	return []string{"169.254.0.0/16", "fe80::/10", "fd00:ec2::254", "64:ff9b::169.254.0.0/112"}
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
	if inner, ok := within6(a); ok && p.denies(inner) {
		return true
	}
	return slices.ContainsFunc(p.denied, func(n netip.Prefix) bool { return n.Contains(a) })
}

// within6 returns the IPv4 address to which a translator (NAT64, 6to4) or the IPv4-compatible form
// leads.
func within6(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a), netip.MustParsePrefix("::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// addressOf returns the address that a host of a URL is. Besides the usual forms it reads those of
// inet_aton, which many clients accept: 0251.0376.1.1, 2851995905 and 0xa9fea9fe.
func addressOf(host string) (netip.Addr, bool) {
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		return a, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts)) // the last part has the rest
		}
		n, err := strconv.ParseUint(octal(part), 0, 64)
		if err != nil || n>>bits != 0 || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(value)) // all parts together have 32 bits
	return netip.AddrFrom4(b), true
}

// octal returns a number in the notation of Go. Clients know octal numbers by a leading zero alone.
func octal(part string) string {
	if len(part) > 1 && part[0] == '0' && (part[1] == 'o' || part[1] == 'O' || part[1] == 'b' || part[1] == 'B') {
		return "" // no client reads these
	}
	return part
}

// CheckURL returns an error if the host of a URL is an address of a denied network. A name
// is not resolved here, because the client may resolve it differently.
func (p *Policy) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // malformed URLs are reported by another check
	}
	a, ok := addressOf(u.Hostname())
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
