package lex

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// URL is the part of a URL that the record checks. Other programs open it.
type URL struct {
	Scheme   string // lower case
	User     bool   // it has a user, and maybe a password
	Fragment bool
}

// ParseURL parses SCHEME://HOST[:PORT] and the rest. Apply does not use net/url, which
// refuses more with each release of Go: peers of two builds must accept the same URLs.
// net/url accepts all that ParseURL does (FuzzURL).
func ParseURL(s string) (URL, bool) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return URL{}, false
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !isScheme(scheme) {
		return URL{}, false
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	host := authority[strings.LastIndex(authority, "@")+1:]
	if !isHostPort(host) || !percentEncoded(path) || !percentEncoded(fragment) {
		return URL{}, false
	}
	return URL{Scheme: Lower(scheme), User: host != authority, Fragment: fragment != ""}, true
}

// IsWeb reports whether the scheme is HTTP or HTTPS.
func (u URL) IsWeb() bool { return u.Scheme == "http" || u.Scheme == "https" }

func isScheme(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i]) && strings.IndexByte("+-.", s[i]) < 0) {
			return false
		}
	}
	return s != ""
}

// isHostPort reports whether s is a name, an IPv4 address or an IPv6 address in brackets,
// with an optional port.
func isHostPort(s string) bool {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
	}
	if len(port) > 5 || len(port) == 5 && port > "65535" || strings.Trim(port, "0123456789") != "" {
		return false
	}
	if inner, bracket := strings.CutPrefix(host, "["); bracket {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		return closed && err == nil && a.Is6() && a.Zone() == ""
	}
	if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
		return false // clients read 0177.1 and 2130706433 as different addresses, or none
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return r < utf8.RuneSelf && !isLetter(byte(r)) && !isDigit(byte(r)) && !strings.ContainsRune("-._~", r)
	})
}

// percentEncoded reports whether each percent sign precedes two hexadecimal digits.
func percentEncoded(s string) bool {
	for i, part := range strings.Split(s, "%") {
		if i > 0 && (len(part) < 2 || strings.Trim(part[:2], "0123456789abcdefABCDEF") != "") {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Lower converts the letters A to Z to lower case and no others. Which other letters have a
// lower case depends on the release of Go.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
