package lex

import (
	"fmt"
	"strings"
)

var separators = strings.NewReplacer(":", "", "-", "", ".", "")

// Hex returns a text in lower case and without the separators of MAC addresses.
func Hex(s string) string { return Lower(separators.Replace(s)) }

// MAC returns the MAC address of a network port in lower case and with colons. It accepts six
// bytes in hex, separated by colons, dashes, dots or nothing. ok is false for other texts, and for
// addresses that no port has: see ParseMAC.
func MAC(s string) (mac string, ok bool) {
	mac, problem := ParseMAC(s)
	return mac, problem == ""
}

// ParseMAC returns what MAC returns, or the reason why a text is not the MAC address of a network
// port. Firmware reports zeros for a port without an address, and several machines would share
// these. A broadcast or multicast address names a group of ports.
func ParseMAC(s string) (mac, problem string) {
	hex := Hex(strings.TrimSpace(s))
	if len(hex) != 12 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", fmt.Sprintf("%q is not a MAC address such as aa:bb:cc:dd:ee:ff", Clip(s, 64))
	}
	var b strings.Builder
	for i := 0; i < 12; i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(hex[i : i+2])
	}
	kind := ""
	switch mac = b.String(); {
	case strings.Trim(hex, "0") == "":
		kind = "no address"
	case strings.Trim(hex, "f") == "":
		kind = "the broadcast address"
	case strings.IndexByte("13579bdf", hex[1]) >= 0:
		kind = "a multicast address"
	default:
		return mac, ""
	}
	return "", fmt.Sprintf("%s is %s: use the MAC address of one network port", mac, kind)
}
