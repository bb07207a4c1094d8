package facts

import (
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultInterface returns the interface of the default route with the lowest metric, IPv4
// before IPv6, or "" if there is none.
func DefaultInterface(fsys fs.FS) string {
	if text, err := read(fsys, "proc/net/route"); err == nil {
		if name := parseRoutes(text); name != "" {
			return name
		}
	}
	text, err := read(fsys, "proc/net/ipv6_route")
	if err != nil {
		return ""
	}
	return parseRoutes6(text)
}

// Flags of a route: it is up, or it rejects packets.
const (
	routeUp     = 0x1
	routeReject = 0x200
)

// parseRoutes reads /proc/net/route: Iface Destination Gateway Flags RefCnt Use Metric Mask …
func parseRoutes(text string) string {
	best, bestMetric := "", uint64(0)
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		metric, err2 := strconv.ParseUint(f[6], 10, 32)
		if err != nil || err2 != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		if best == "" || metric < bestMetric {
			best, bestMetric = f[0], metric
		}
	}
	return best
}

// parseRoutes6 reads /proc/net/ipv6_route: destination, its prefix length, source, its prefix
// length, next hop, metric, references, use, flags, interface; all in hexadecimal.
func parseRoutes6(text string) string {
	const anywhere = "00000000000000000000000000000000"
	best, bestMetric := "", uint64(0)
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) != 10 || f[0] != anywhere || f[1] != "00" || f[9] == "lo" {
			continue
		}
		metric, err := strconv.ParseUint(f[5], 16, 32)
		flags, err2 := strconv.ParseUint(f[8], 16, 32)
		if err != nil || err2 != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		if best == "" || metric < bestMetric {
			best, bestMetric = f[9], metric
		}
	}
	return best
}

// MAC returns the address of an interface, in lower case with colons, or "" if it has none.
func MAC(fsys fs.FS, name string) string {
	if name == "" || !fs.ValidPath(name) || strings.Contains(name, "/") {
		return ""
	}
	mac := strings.ToLower(line(fsys, "sys/class/net/"+name+"/address"))
	if len(mac) != len("00:00:00:00:00:00") || strings.Trim(mac, "0:") == "" {
		return ""
	}
	return mac
}

// Interface is one network interface and its addresses.
type Interface struct {
	Name  string
	Addrs []netip.Addr
}

// PrivateIP returns the address to register, and its interface. An address on the interface
// of the default route is preferred, then private before public, and IPv4 before IPv6.
// Loopback and link-local addresses are never chosen.
func PrivateIP(interfaces []Interface, way string) (addr netip.Addr, name string) {
	best := 0
	for _, i := range interfaces {
		for _, a := range i.Addrs {
			r := rank(a.Unmap())
			if r > 0 && i.Name == way {
				r += 10
			}
			if r > best {
				best, addr, name = r, a.Unmap(), i.Name
			}
		}
	}
	return addr, name
}

func rank(a netip.Addr) int {
	switch {
	case !a.IsGlobalUnicast():
		return 0
	case a.Is4() && a.IsPrivate():
		return 4
	case a.Is4():
		return 3
	case a.IsPrivate():
		return 2
	}
	return 1
}
