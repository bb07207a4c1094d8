package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// AutoAddress asks RegistrationAddress to find the address by itself.
const AutoAddress = "auto"

// RegistrationAddress is the host to register: announce, or when that is empty or AutoAddress, an
// address of this machine: a private one (RFC 1918, RFC 4193) before others, IPv4 before IPv6,
// never one of loopback.
func RegistrationAddress(announce string) (string, error) {
	if announce != "" && announce != AutoAddress {
		return announce, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	var addrs []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	if best, ok := bestAddress(addrs); ok {
		return best.String(), nil
	}
	return "", errors.New("find the address of this machine: it has none but loopback: announce one")
}

func bestAddress(addrs []netip.Addr) (best netip.Addr, ok bool) {
	rank := func(a netip.Addr) int {
		switch {
		case !a.IsGlobalUnicast():
			return 0
		case a.IsPrivate() && a.Is4():
			return 4
		case a.Is4():
			return 3
		case a.IsPrivate():
			return 2
		}
		return 1
	}
	for _, a := range addrs {
		if rank(a) > 0 && (!ok || rank(a) > rank(best)) {
			best, ok = a, true
		}
	}
	return best, ok
}
