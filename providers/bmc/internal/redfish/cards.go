package redfish

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxPCIe bounds how many PCIe devices are read. Each costs a request.
const maxPCIe = 160

// cards reads the PCIe devices: those that the system links to and those of its chassis. A device
// with the same id at both is listed once. HPE's iLO 5 has its own list.
func (k *survey) cards(s *computerSystem) {
	const kind, what = "pcie", "PCIe devices"
	shown := s.Has("PCIeDevices")
	paths := k.expand(kind, what, s.resource.Links("PCIeDevices"))
	byID := map[string]bool{}
	for _, at := range paths {
		byID[path.Base(at)] = true
	}
	for _, c := range k.body.members {
		own := slices.ContainsFunc(s.Links.Chassis, func(at string) bool { return sameAs(at, c.path) })
		shown = shown || c.Has("PCIeDevices")
		below := slices.Concat(c.Links("PCIeDevices"), c.In("Links").Links("PCIeDevices"))
		for _, at := range k.expand(kind, what, below) {
			duplicate := own && byID[path.Base(at)]
			if !duplicate && !slices.ContainsFunc(paths, func(o string) bool { return sameAs(o, at) }) {
				paths = append(paths, at)
			}
		}
	}
	if k.err != nil {
		return
	}
	all, err := k.h.c.linked(k.ctx, paths, maxPCIe)
	for _, d := range once(k.present(kind, what, all, err)) {
		slot := d.In("Slot", "Location", "PartLocation").Text("ServiceLabel")
		k.v.PCIe = append(k.v.PCIe, card(d, cmp.Or(slot, d.id())))
		k.odd(what, d)
	}
	if len(k.v.PCIe) == 0 && len(paths) == 0 {
		shown = k.hpe() || shown
	}
	if !shown {
		k.miss(kind, what, "not shown by the BMC")
	}
}

// expand returns the paths of devices. A link to a collection counts as its members. Only a single
// link can be one.
func (k *survey) expand(kind, what string, paths []string) []string {
	var all []string
	for _, at := range paths {
		if base := path.Base(strings.TrimRight(at, "/")); base != "PCIeDevices" || k.err != nil {
			all = append(all, at)
			continue
		}
		list, err := k.h.c.collection(k.ctx, at, maxPCIe)
		if !k.ok(kind, what, err) {
			continue
		}
		for _, m := range list.members {
			all = append(all, m.path)
		}
		if list.more > 0 {
			k.miss(kind, what, fmt.Sprintf("%d more of %s are not shown", list.more, at))
		}
	}
	return all
}

// hpe reads the devices that iLO 5 lists below a link of its own: with a type, an empty slot, and
// drives and the video controller among them. It reports whether there are any.
func (k *survey) hpe() (shown bool) {
	for _, c := range k.body.members {
		at := c.In("Oem", "Hpe", "Links").Link("Devices")
		for _, d := range k.members("pcie gpu", "PCIe devices", at) {
			slot := cmp.Or(d.Text("Location"), d.id())
			is := card(d, slot)
			k.v.PCIe = append(k.v.PCIe, is)
			shown = true
			name := strings.ToLower(is.Model)
			gpu := d.Word("DeviceType", "GPU") == "GPU" && !strings.Contains(name, "switch") &&
				!strings.Contains(strings.ToLower(slot), "baseboard")
			if gpu && len(k.v.GPUs) < maxPCIe {
				k.v.GPUs = append(k.v.GPUs, is)
			}
			k.odd("PCIe devices", d)
		}
	}
	return shown
}

// once drops resources that were read through several paths.
func once(all []*resource) []*resource {
	var own []string
	return slices.DeleteFunc(all, func(r *resource) bool {
		at := strings.TrimRight(cmp.Or(r.Self(), r.path), "/")
		if slices.Contains(own, at) {
			return true
		}
		own = append(own, at)
		return false
	})
}
