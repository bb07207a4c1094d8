package neighbor

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestFind(t *testing.T) {
	mac := func(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, last} }
	table := []netlink.Neigh{
		{IP: net.IPv4(10, 0, 0, 1), HardwareAddr: mac(1), State: netlink.NUD_REACHABLE},
		{IP: net.IPv4(10, 0, 0, 2), HardwareAddr: mac(2), State: netlink.NUD_STALE},
		{IP: net.IPv4(10, 0, 0, 3), HardwareAddr: mac(3), State: netlink.NUD_FAILED},
		{IP: net.IPv4(10, 0, 0, 4), State: netlink.NUD_INCOMPLETE},
		{IP: net.IPv4(10, 0, 0, 5), HardwareAddr: mac(5), State: netlink.NUD_REACHABLE},
		{IP: net.IPv4(10, 0, 0, 5), HardwareAddr: mac(6), State: netlink.NUD_REACHABLE},
		{IP: net.ParseIP("fe80::1"), HardwareAddr: mac(7), State: netlink.NUD_REACHABLE},
		{IP: net.IPv4(127, 0, 0, 1), HardwareAddr: mac(0), State: netlink.NUD_NOARP},
	}
	for _, tt := range []struct{ name, ip, want string }{
		{"a neighbor", "10.0.0.1", "02:00:00:00:00:01"},
		{"stale entry", "10.0.0.2", "02:00:00:00:00:02"},
		{"failed entry", "10.0.0.3", ""},
		{"incomplete entry", "10.0.0.4", ""},
		{"an address on two networks", "10.0.0.5", ""},
		{"IPv6", "fe80::1", "02:00:00:00:00:07"},
		{"loopback", "127.0.0.1", ""},
		{"behind a router", "10.9.0.1", ""},
	} {
		if got := find(table, netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := MAC(netip.MustParseAddr("127.0.0.1")); got != "" {
		t.Errorf("loopback of this host: got %q, want none", got)
	}
}
