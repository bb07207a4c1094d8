// Package neighbor reads the neighbor table of this host: which MAC address an IP address has on
// the networks that the host is on.
//
// It owns how the table is read. It must not know what the answer is for.
package neighbor

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// unusable are the states of an entry whose MAC address says nothing: it was never found out, or is
// not found any more.
const unusable = netlink.NUD_INCOMPLETE | netlink.NUD_FAILED | netlink.NUD_NOARP

// MAC returns the MAC address of an IP address, such as 02:00:00:00:00:01. It is empty if the
// address is not a neighbor, if the table has two MAC addresses of it, or if the table cannot be
// read.
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
		if at, ok := netip.AddrFromSlice(n.IP); !ok || at.Unmap() != ip || n.State&unusable != 0 || len(n.HardwareAddr) != 6 {
			continue
		}
		if mac != "" && mac != n.HardwareAddr.String() {
			return ""
		}
		mac = n.HardwareAddr.String()
	}
	return mac
}
