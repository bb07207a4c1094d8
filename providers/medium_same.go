package providers

import (
	"net/url"
	"strings"
)

// SameMedium reports whether two URLs of virtual media name the same image, or are both empty.
// BMCs may respell a URL: scheme or host in another case, the default port added or dropped,
// other escapes, or surrounding blanks. The path is compared exactly.
func SameMedium(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := url.Parse(strings.TrimSpace(a))
	y, errY := url.Parse(strings.TrimSpace(b))
	if errX != nil || errY != nil || a == "" || b == "" {
		return false
	}
	return strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Hostname(), y.Hostname()) &&
		portOf(x) == portOf(y) && x.Path == y.Path && x.RawQuery == y.RawQuery
}

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}
