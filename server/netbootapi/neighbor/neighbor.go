// Package neighbor reads the neighbor table of this host. The table maps the IP addresses
// of the local networks to MAC addresses.
//
// It owns the reading of the table. It does not know the purpose of a lookup.
package neighbor

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// unusable are the states of entries without a valid MAC address: the address was never
// resolved or can no longer be resolved.
const unusable = netlink.NUD_INCOMPLETE | netlink.NUD_FAILED | netlink.NUD_NOARP

// MAC returns the MAC address of an IP address, such as 02:00:00:00:00:01. It returns "" if
// the address is not a neighbor, has two MAC addresses, or the table cannot be read.
func MAC(ip netip.Addr) string {
	family := netlink.FAMILY_V4
	if ip.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(0, family)
	if err != nil {
		return ""
	}
	return find(all, ip)
}

func find(all []netlink.Neigh, ip netip.Addr) (mac string) {
	for _, n := range all {
		at, ok := netip.AddrFromSlice(n.IP)
		if !ok || at.Unmap() != ip || n.State&unusable != 0 || len(n.HardwareAddr) != 6 {
			continue
		}
		if mac != "" && mac != n.HardwareAddr.String() {
			return ""
		}
		mac = n.HardwareAddr.String()
	}
	return mac
}
