package lex

import (
	"net/netip"
	"strings"
)

// BMCKey returns the same text for all spellings of a BMC's address: without https:// or ipmi://,
// the port that these imply, the parts of a path that name no system, and in lower case. Addresses
// of a service that is not the BMC itself (amt://, rpc://, ironic://) keep their scheme.
func BMCKey(endpoint string) string {
	s := Lower(strings.TrimSpace(endpoint))
	scheme, rest, named := strings.Cut(s, "://")
	if !named {
		scheme, rest = "", s
	}
	at, path, _ := strings.Cut(rest, "/")
	host, port := splitPort(at)
	key := plainHost(host)
	switch scheme {
	case "", "https", "http", "ipmi":
	default:
		key = scheme + "://" + key
	}
	if port != "" && port != impliedPort(scheme, port) {
		if strings.Contains(key, ":") && !strings.Contains(key, "://") {
			key = "[" + key + "]"
		}
		key += ":" + port
	}
	path = strings.TrimRight(path, "/")
	switch path {
	case "", "redfish", "redfish/v1", "redfish/v1/systems":
		return key
	}
	return key + "/" + path
}

// splitPort returns the host and the port of host, host:port, or an IPv6 address without brackets.
func splitPort(at string) (host, port string) {
	if _, ok := parseAddr(at); ok {
		return at, ""
	}
	if i := strings.LastIndexByte(at, ':'); i > strings.LastIndexByte(at, ']') {
		return at[:i], at[i+1:]
	}
	return at, ""
}

// plainHost returns the one spelling of a name or an address.
func plainHost(host string) string {
	if a, ok := parseAddr(strings.Trim(host, "[]")); ok {
		var b [64]byte
		if text := a.Unmap().AppendTo(b[:0]); string(text) != host {
			return string(text)
		}
		return host
	}
	return strings.TrimSuffix(host, ".")
}

// parseAddr is netip.ParseAddr, without the cost of its error for most names: Apply asks for a key
// at each write of a machine.
func parseAddr(s string) (netip.Addr, bool) {
	if s == "" || strings.Count(s, ":") < 2 && (s[0] < '0' || s[0] > '9') {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a, err == nil
}

// impliedPort returns the port that a scheme implies. Without a scheme, port 623 is IPMI.
func impliedPort(scheme, port string) string {
	switch {
	case scheme == "http":
		return "80"
	case scheme == "https", scheme == "" && port != "623":
		return "443"
	case scheme == "ipmi", scheme == "":
		return "623"
	}
	return ""
}
