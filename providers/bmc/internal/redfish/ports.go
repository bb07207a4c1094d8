package redfish

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
)

// ports reads the network ports: the interfaces of the system, and the ports of the adapters in its
// chassis that are not among them. Interfaces to the BMC itself and those of VLANs are no ports.
func (k *survey) ports(s *computerSystem) {
	const kind, what = "nic", "network ports"
	shown := s.EthernetInterfaces.ID != ""
	for _, e := range k.members(kind, what, s.EthernetInterfaces.ID) {
		if e.Word("EthernetInterfaceType", "Virtual") == "Virtual" || e.In("Links").Has("HostInterface") ||
			strings.Contains(strings.ToLower(e.id()), "tomanager") {
			continue
		}
		speed, _ := e.Count("SpeedMbps")
		k.v.NICs = append(k.v.NICs, providers.NIC{
			Name: e.id(),
			MAC:  cmp.Or(macOf(e.Text("PermanentMACAddress")), macOf(e.Text("MACAddress"))),
			Mbps: int(speed),
			Link: linkOf(e.Object),
		})
		k.odd(what, e)
	}
	for _, c := range k.body.members {
		at := c.Link("NetworkAdapters")
		shown = shown || at != ""
		for _, a := range k.members(kind, what, at) {
			k.adapter(a)
		}
	}
	if !shown && k.err == nil {
		k.miss(kind, what, "not shown by the BMC")
	}
}

// port adds a port of an adapter, unless one with its MAC address or name is known.
func (k *survey) port(n providers.NIC) {
	for i, was := range k.v.NICs {
		if was.MAC == n.MAC && n.MAC != "" || was.Name == n.Name && (was.MAC == "" || n.MAC == "") {
			k.v.NICs[i].MAC = cmp.Or(was.MAC, n.MAC)
			if was.Link != providers.PartUp {
				k.v.NICs[i].Link = cmp.Or(n.Link, was.Link)
			}
			k.v.NICs[i].Mbps = max(was.Mbps, n.Mbps)
			return
		}
	}
	k.v.NICs = append(k.v.NICs, n)
}

// adapter adds the ports of a network adapter. The functions have the addresses, and the ports the
// speed. An adapter that shows neither counts as one port.
func (k *survey) adapter(a *resource) {
	const kind, what = "nic", "network ports"
	links := map[string]providers.NIC{}
	var order []string
	below := cmp.Or(a.Link("Ports"), a.Link("NetworkPorts"))
	for _, p := range k.members(kind, what, below) {
		speed, _ := p.Count("CurrentLinkSpeedMbps")
		if gbps, ok := p.Number("CurrentSpeedGbps"); ok && speed == 0 {
			speed = int64(gbps * 1000)
		}
		n := providers.NIC{Name: p.id(), Mbps: int(speed), Link: linkOf(p.Object)}
		for _, address := range slices.Concat(
			p.Words("AssociatedNetworkAddresses"), p.In("Ethernet").Words("AssociatedMACAddresses"),
		) {
			n.MAC = cmp.Or(n.MAC, macOf(address))
		}
		key := strings.TrimRight(p.path, "/")
		order, links[key] = append(order, key), n
		k.odd(what, p)
	}
	named := map[string]bool{}
	for _, f := range k.members(kind, what, a.Link("NetworkDeviceFunctions")) {
		on := cmp.Or(f.Link("PhysicalPortAssignment"), f.In("Links").Link("PhysicalPortAssignment"),
			f.In("Links").Link("PhysicalNetworkPortAssignment"), f.Link("AssignablePhysicalPorts"))
		on = strings.TrimRight(on, "/")
		n := links[on]
		mac := cmp.Or(macOf(f.In("Ethernet").Text("PermanentMACAddress")), macOf(f.In("Ethernet").Text("MACAddress")))
		if mac == "" && n.MAC == "" {
			continue // storage or InfiniBand: its port follows
		}
		named[on] = true
		k.port(providers.NIC{Name: f.id(), MAC: cmp.Or(mac, n.MAC), Mbps: n.Mbps, Link: n.Link})
		k.odd(what, f)
	}
	for _, key := range order {
		if n := links[key]; !named[key] {
			n.Name = a.id() + "/" + n.Name
			k.port(n)
		}
	}
	if len(order) == 0 && len(named) == 0 && k.err == nil {
		k.port(providers.NIC{Name: a.id()})
	}
}

// linkOf reports whether a port has a link, if it shows that. Vendors write LinkUp, Up and
// Connected; NoLink, LinkDown, Down and NotConnected.
func linkOf(o loose.Object) providers.PartState {
	switch o.Word("LinkStatus", "LinkUp", "Up", "Connected", "LinkDown", "Down", "NoLink", "NotConnected",
		"Disconnected") {
	case "LinkUp", "Up", "Connected":
		return providers.PartUp
	case "LinkDown", "Down", "NoLink", "NotConnected", "Disconnected":
		return providers.PartDown
	}
	return ""
}

// macOf returns a MAC address in its usual form, or "" if s is none: a placeholder, a WWN, or an
// address that no port can have.
func macOf(s string) string {
	b, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "", ".", "").Replace(s))
	if err != nil || len(b) != 6 || b[0]&1 == 1 || !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return ""
	}
	var pairs []string
	for _, c := range b {
		pairs = append(pairs, hex.EncodeToString([]byte{c}))
	}
	return strings.Join(pairs, ":")
}
