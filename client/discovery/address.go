package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// AutoAddress makes RegistrationAddress detect the address.
const AutoAddress = "auto"

// RegistrationAddress returns the host to register. If announce is empty or AutoAddress, it
// returns an address of this machine: a private one (RFC 1918, RFC 4193) before others,
// IPv4 before IPv6, and never a loopback address.
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
	return "", errors.New("find the address of this machine: it has only loopback addresses: announce one")
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
