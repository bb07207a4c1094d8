package providers

import (
	"net/url"
	"strings"
)

// SameMedium reports whether two URLs of virtual media are of the same image, or both empty. BMCs
// show what they were given in another spelling: with the scheme and the host in other case, with
// or without the port of the scheme, with other escapes, or with blanks around it. The path is
// compared as it is.
func SameMedium(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := url.Parse(strings.TrimSpace(a))
	y, errY := url.Parse(strings.TrimSpace(b))
	if errX != nil || errY != nil || a == "" || b == "" {
		return false
	}
	return strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Hostname(), y.Hostname()) && portOf(x) == portOf(y) && x.Path == y.Path && x.RawQuery == y.RawQuery
}

// portOf returns the port of a URL, that of its scheme if it names none.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}
