package lex

import (
	"net/netip"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/hostaddr"
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
	if _, err := netip.ParseAddr(host); err != nil {
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
	}
	if a, ok := hostaddr.Of(host); ok {
		return hostaddr.Reserved(a)
	}
	host = strings.TrimSuffix(Lower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return hostaddr.ThisHost
	}
	return ""
}
