// Package pid1 is the init of a small initramfs: it mounts file systems, loads drivers,
// configures the network and restarts the machine.
//
// It also parses the kernel command line. It must not touch disks.
package pid1

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Line has the installer's settings on the kernel command line.
type Line struct {
	URL   string // holdfast.url: base URL of a peer
	Token string // holdfast.token: of the install session
	Addr  Addr   // ip=; zero: use DHCP
	MAC   string // BOOTIF= (01-aa-bb-…) or mac=: the interface to use; "": any with an address
	// MACs are the addresses in the machine's record (holdfast.macs=aa:bb:…,cc:dd:…). Their
	// interfaces are tried first.
	MACs []string
	Hold bool // holdfast.hold: do not restart at the end
}

// Addr is an address with an existing DHCP lease. iPXE passes its own on, so that no second
// one is needed.
type Addr struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
	DNS     []netip.Addr
	// Routes are the server's static routes. If there are any, they replace Gateway (RFC 3442).
	Routes []Route
}

// Route is a route to a network.
type Route struct {
	To  netip.Prefix
	Via netip.Addr // zero or 0.0.0.0: on the link
}

// routes returns all routes, in the order in which they can be set: routers that other routes need
// come first.
func (a Addr) routes() []Route {
	all := slices.Clone(a.Routes)
	if len(all) == 0 && a.Gateway.IsValid() && !a.Gateway.IsUnspecified() {
		all = []Route{{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: a.Gateway}}
	}
	var onLink, through []Route
	for _, r := range all {
		if !r.Via.IsValid() || r.Via.IsUnspecified() {
			onLink = append(onLink, r)
			continue
		}
		if host := (Route{To: netip.PrefixFrom(r.Via, r.Via.BitLen())}); !a.Prefix.Contains(r.Via) &&
			!slices.Contains(onLink, host) {
			onLink = append(onLink, host)
		}
		through = append(through, r)
	}
	return append(onLink, through...)
}

// only returns the addresses of the interface that the line selects, none if it selects none.
func (l Line) only() []string {
	if l.MAC == "" {
		return nil
	}
	return []string{l.MAC}
}

// ParseLine parses a kernel command line. It ignores unknown words.
func ParseLine(text string) (Line, error) {
	var l Line
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "holdfast.url":
			l.URL = value
		case "holdfast.token":
			l.Token = value
		case "holdfast.hold":
			l.Hold = true
		case "holdfast.macs":
			l.MACs = strings.Split(strings.ToLower(value), ",")
		case "mac":
			l.MAC = strings.ToLower(value)
		case "BOOTIF":
			l.MAC = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(value, "01-")), "-", ":")
		case "ip":
			a, err := parseIP(value)
			if err != nil {
				return Line{}, err
			}
			l.Addr = a
		}
	}
	return l, nil
}

// parseIP parses the kernel's notation (Documentation/admin-guide/nfs/nfsroot.rst):
// client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1:ntp0. A word such as
// dhcp, on or any selects DHCP.
func parseIP(text string) (Addr, error) {
	f := strings.Split(text, ":")
	if len(f) < 4 || f[0] == "" {
		return Addr{}, nil
	}
	bad := func(what, value string) (Addr, error) {
		return Addr{}, fmt.Errorf("read ip=%s: the %s %q is not an IPv4 address: use client::gateway:netmask or dhcp",
			text, what, value)
	}
	client, err := netip.ParseAddr(f[0])
	if err != nil || !client.Is4() {
		return bad("client", f[0])
	}
	mask := net.ParseIP(f[3]).To4()
	if mask == nil {
		return bad("netmask", f[3])
	}
	ones, size := net.IPMask(mask).Size()
	if size == 0 {
		return bad("netmask", f[3])
	}
	a := Addr{Prefix: netip.PrefixFrom(client, ones)}
	if f[2] != "" && f[2] != "0.0.0.0" {
		if a.Gateway, err = netip.ParseAddr(f[2]); err != nil || !a.Gateway.Is4() {
			return bad("gateway", f[2])
		}
	}
	for _, s := range f[min(len(f), 7):min(len(f), 9)] {
		if dns, err := netip.ParseAddr(s); err == nil {
			a.DNS = append(a.DNS, dns)
		}
	}
	return a, nil
}
