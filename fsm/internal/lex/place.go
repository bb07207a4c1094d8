package lex

import (
	"net/netip"
	"strings"
)

// PeerOnly returns what the host of an endpoint or URL is, if it means something else to each peer
// or belongs to its cloud, and "" if other hosts can have it. A caller that is limited to pools may
// not make peers connect there, because it would reach what only the peers' own host may reach.
func PeerOnly(endpoint string) string {
	_, rest, ok := strings.Cut(endpoint, "://")
	if !ok {
		rest = endpoint
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host := rest[strings.LastIndexByte(rest, '@')+1:]
	a, err := netip.ParseAddr(host)
	if err != nil {
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		host = strings.TrimSuffix(Lower(strings.Trim(host, "[]")), ".")
		a, err = netip.ParseAddr(host)
	}
	switch {
	case err == nil:
		return peerOnlyAddr(a)
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return "the peer itself"
	}
	return ""
}

// peerOnlyAddr is PeerOnly for an address, which may contain one of IPv4.
func peerOnlyAddr(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	if b := a.As16(); a.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return "the peer itself"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a == netip.MustParseAddr("fd00:ec2::254"):
		return "the metadata service of a cloud"
	}
	return ""
}
