// Package known separates texts that identify hardware from those that vendors put into unset
// fields.
//
// It owns the list of such placeholders, and the comparison of serial numbers and UUIDs that
// firmware, labels and tools spell differently. It must not read anything: the replicated state
// depends on it.
package known

import "strings"

// Text returns s without blanks at its ends, or "" if s is a placeholder that vendors put into
// unset fields. Many machines share these, so they identify none.
func Text(s string) string {
	s = strings.TrimSpace(s)
	switch lower(strings.Trim(s, ".()<>[]{}*")) {
	case "", "0", "none", "unknow", "tbd", "to be defined", "to be determined", "fill by oem", "filled by oem",
		"not present",
		"not installed", "not assigned", "not programmed", "no module installed", "no dimm", "uninitialized", "blank",
		"dummy", "missing", "standard", "n/a", "na", "null", "unknown", "default string", "to be filled by o.e.m",
		"not specified",
		"not applicable", "not available", "system serial number", "system product name", "system manufacturer",
		"chassis serial number",
		"base board serial number", "serial number", "oem", "o.e.m", "invalid", "empty", "123456789", "0123456789",
		"undefined", "unspecified", "none provided", "not provided", "not defined", "not set", "unassigned",
		"unavailable",
		"no asset tag", "asset tag", "no serial", "serial", "default", "product name", "manufacturer", "x.x", "0x0",
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
		"12345678-1234-5678-90ab-cddeefaabbcc":
		return ""
	}
	if l := lower(s); strings.HasPrefix(l, "oem define") || strings.HasPrefix(l, "oem string") ||
		strings.HasPrefix(l, "to be filled") || strings.HasSuffix(l, "serial number") || strings.Contains(l,
		"sernum") ||
		counts(l) || countsBehind(l) {
		return ""
	}
	// One repeated character and dashes, such as a UUID of zeros.
	if rest := strings.ReplaceAll(s, "-", ""); rest == "" || len(rest) > 1 && strings.Trim(rest, rest[:1]) == "" {
		return ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return ""
	}
	return s
}

// countsBehind reports whether a text only counts upwards behind a few letters, such as
// MB-1234567890 or BSN12345678901234567.
func countsBehind(s string) bool {
	const letters, shortest = 5, 9
	rest := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz-_ ")
	return len(s)-len(rest) <= letters && len(rest) >= shortest && counts(rest)
}

// counts reports whether a text only counts upwards, such as 1234567890 or 01234567890123456789AB.
func counts(s string) bool {
	const shortest = 6
	for i := 1; i < len(s); i++ {
		a, b := s[i-1], s[i]
		digit := a >= '0' && a <= '9' && (b == a+1 && b <= '9' || a == '9' && (b == '0' || b == 'a'))
		letter := a >= 'a' && a < 'z' && b == a+1
		if !digit && !letter {
			return false
		}
	}
	return len(s) >= shortest
}
