package lex

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// bmcSchemes are the schemes of BMC addresses. The address of an AMT or RPC service and the node of
// Ironic have the form of a host.
func bmcSchemes() []string { return []string{"https", "http", "ipmi", "amt", "rpc", "ironic"} }

const (
	wantBMC = "want host[:port], or https://host[:port][/redfish/v1/Systems/ID], ipmi://, amt://, rpc:// or ironic://"
	wantSSH = "want host or host:port, with user@ before it for other tools"
)

// BMCEndpoint returns the reason why a text is not the address of a BMC, "" if it is one.
func BMCEndpoint(s string) string {
	if strings.Contains(s, "@") { // not shown, because it may contain a password
		return "contains a user name or a password: put these in a secret, and name it in bmc_credentials_ref"
	}
	scheme, rest, named := strings.Cut(s, "://")
	if !named {
		if strings.ContainsAny(s, "/?#") {
			return fmt.Sprintf("%q is a host with a path, but without https://: %s", Clip(s, 100), wantBMC)
		}
		return wrongHostPort(s, wantBMC)
	}
	if !slices.Contains(bmcSchemes(), Lower(scheme)) {
		return fmt.Sprintf("%q has the scheme %q: %s", Clip(s, 100), Clip(scheme, 32), wantBMC)
	}
	host, path, _ := strings.Cut(rest, "/")
	if path != "" && Lower(scheme) != "https" && Lower(scheme) != "http" || strings.ContainsAny(rest, "?#") ||
		!percentEncoded(path) || !SingleLine(path) || strings.Contains(path, " ") {
		return fmt.Sprintf("%q has a path that is not allowed: %s", Clip(s, 100), wantBMC)
	}
	if respellable(path) {
		return fmt.Sprintf("%q has a path with another spelling: write it without empty parts, dots and needless "+
			"escapes", Clip(s, 100))
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return fmt.Sprintf("%q has an IPv6 address without brackets: write [%s]", Clip(s, 100), host)
	}
	return wrongHostPort(host, wantBMC)
}

// respellable reports whether a path has a simpler spelling: one BMC must have one address.
func respellable(path string) bool {
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if len(parts) > 1 && slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return true
	}
	for i, part := range strings.Split(path, "%") {
		if i == 0 {
			continue
		}
		b, err := hex.DecodeString(part[:2])
		if err != nil || isLetter(b[0]) || isDigit(b[0]) || strings.ContainsRune("-._~/", rune(b[0])) {
			return true
		}
	}
	return false
}

// SSHEndpoint returns the reason why a text is not the address of a host with SSH, "" if it is one.
func SSHEndpoint(s string) string {
	user, host, named := strings.Cut(s, "@")
	switch {
	case named && !ValidName(strings.ReplaceAll(user, ":", " "), 64): // not shown: it may have a password
		return "has a user that is no name: put a password in a secret, and name it in ssh_credentials_ref"
	case named:
		s = host
	}
	if strings.ContainsAny(s, "/@") {
		return fmt.Sprintf("%q is not an address: %s", Clip(s, 100), wantSSH)
	}
	return wrongHostPort(s, wantSSH)
}

// wrongHostPort returns the reason why a text is not host, host:port or an IPv6 address.
func wrongHostPort(s, want string) string {
	bad := func(why string) string { return fmt.Sprintf("%q %s: %s", Clip(s, 100), why, want) }
	if a, err := netip.ParseAddr(s); err == nil {
		return unusable(a, bad)
	}
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
		if !isPort(port) {
			return bad(fmt.Sprintf("has the port %q, not 1 to 65535", Clip(port, 32)))
		}
	}
	if inner, bracket := strings.CutPrefix(host, "["); bracket {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !closed || err != nil || !a.Is6() {
			return bad("is not an IPv6 address in brackets")
		}
		return unusable(a, bad)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return unusable(a, bad)
	}
	return wrongName(host, bad)
}

func isPort(s string) bool {
	return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == "" && s[0] != '0' &&
		(len(s) < 5 || s <= "65535")
}

// unusable returns the reason why no host can have an address.
func unusable(a netip.Addr, bad func(why string) string) string {
	a = a.Unmap()
	switch {
	case a.Zone() != "":
		return bad("has a zone, which means something else on each peer")
	case a.IsUnspecified(), a.IsMulticast(), a.String() == "255.255.255.255":
		return bad("is not the address of a host")
	}
	return ""
}

// wrongName returns the reason why a text is not the name of a host (RFC 1123). A name that ends in
// a number would be an address, and resolvers read it in different ways.
func wrongName(s string, bad func(why string) string) string {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	if s == "" || len(s) > 253 {
		return bad("is not a host")
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' ||
			strings.ContainsFunc(l, func(r rune) bool {
				return r > '~' || !isLetter(byte(r)) && !isDigit(byte(r)) && r != '-' && r != '_'
			}) {
			return bad("is not the name or the address of a host")
		}
	}
	if endsInNumber(s) {
		return bad("is not an address: an IPv4 address has four numbers from 0 to 255")
	}
	return ""
}

// endsInNumber reports whether the last part of a host is a number, in decimal, octal or
// hexadecimal form. Names of hosts do not end in one.
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := Lower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
