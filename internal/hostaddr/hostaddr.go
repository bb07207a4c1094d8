// Package hostaddr reads which address the host of a URL or an endpoint is, in every form that
// clients accept. The rules about outgoing connections share it: server/egress, which operators
// configure, for URLs that peers fetch, providers/guard, which is fixed, for endpoints of machines,
// and fsm, which limits the endpoints that callers of pools may enter.
//
// It owns the forms of addresses, and which ones are those of a host itself or of its cloud. It
// must not decide which ones are allowed. Results of Apply depend on it: it must be pure.
package hostaddr

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ThisHost is how Reserved describes the addresses of the host itself.
const ThisHost = "the peer itself"

// Reserved returns what an address is, if it means something else on each host or belongs to the
// host's cloud, and "" if it can be that of another host. An IPv6 address that leads to such an
// IPv4 address is one too.
func Reserved(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return ThisHost
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	}
	if slices.Contains(Metadata(), a.String()) {
		return "the metadata service of a cloud"
	}
	if inner, ok := Within(a); ok {
		return Reserved(inner)
	}
	return ""
}

// Metadata returns the addresses at which clouds serve the credentials of a host, besides the
// link-local 169.254.169.254: those of AWS, Google, Alibaba, Azure and Oracle.
func Metadata() []string {
	return []string{"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}
}

// Within returns the IPv4 address to which an IPv6 address leads: by a translator (NAT64, also that
// of a site, or SIIT), by 6to4, or in the mapped or compatible form.
func Within(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	if a.Is4In6() {
		return a.Unmap(), true
	}
	a = a.WithZone("") // no prefix contains an address with a zone
	b := a.As16()
	for _, prefix := range []string{"64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96"} {
		if netip.MustParsePrefix(prefix).Contains(a) {
			return netip.AddrFrom4([4]byte(b[12:])), true
		}
	}
	if netip.MustParsePrefix("2002::/16").Contains(a) {
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// Of returns the address that a host of a URL is. Besides the usual forms it reads those of
// inet_aton, which many clients accept: 0251.0376.1.1, 2851995905 and 0xa9fea9fe.
func Of(host string) (netip.Addr, bool) {
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
