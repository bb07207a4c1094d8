package bmclib

import (
	"cmp"
	"strings"

	"github.com/bmc-toolbox/common"

	"github.com/holdfast-metal/holdfast/providers"
)

// vendorInventory converts an inventory of bmclib. Its drivers omit unreadable parts silently.
func vendorInventory(d *common.Device) *providers.Inventory {
	v := &providers.Inventory{
		Manufacturer: d.Vendor,
		Model:        d.Model,
		Serial:       d.Serial,
		Missing:      []string{"parts that bmclib's driver does not show: it does not report read errors"},
		Unread:       providers.PartKinds(),
	}
	if d.BIOS != nil {
		v.BIOS = installedFirmware(d.BIOS.Firmware)
	}
	if d.BMC != nil {
		v.BMC = installedFirmware(d.BMC.Firmware)
	}
	for _, c := range d.CPUs {
		v.CPUs = append(v.CPUs, providers.CPU{
			Slot:    cmp.Or(c.Slot, c.ID),
			Model:   c.Model,
			Cores:   c.Cores,
			Threads: c.Threads,
			Serial:  c.Serial,
			State:   stateOf(c.Status),
		})
	}
	for _, m := range d.Memory {
		v.Memory = append(v.Memory, providers.DIMM{
			Slot:   cmp.Or(m.Slot, m.ID),
			Bytes:  m.SizeBytes,
			Type:   m.Type,
			Serial: m.Serial,
			State:  stateOf(m.Status),
		})
		v.MemoryBytes += m.SizeBytes
	}
	for _, k := range d.Drives {
		v.Disks = append(v.Disks, providers.Disk{
			Slot:     k.ID,
			Model:    k.Model,
			Serial:   k.Serial,
			Bytes:    k.CapacityBytes,
			Media:    k.Type,
			Firmware: installedFirmware(k.Firmware),
			State:    stateOf(k.Status),
		})
	}
	for _, n := range d.NICs {
		for _, p := range n.NICPorts {
			v.NICs = append(v.NICs, providers.NIC{
				Name: cmp.Or(p.ID, n.ID),
				MAC:  strings.ToLower(p.MacAddress),
				Mbps: int(p.SpeedBits / 1e6),
				Link: linkOf(p.LinkStatus),
			})
		}
	}
	return v
}

func installedFirmware(f *common.Firmware) string {
	if f == nil {
		return ""
	}
	return f.Installed
}

// stateOf returns the state of a part. A word that no driver of bmclib uses proves nothing.
func stateOf(s *common.Status) providers.PartState {
	if s == nil {
		return ""
	}
	switch strings.ToLower(strings.TrimSpace(s.Health)) {
	case "ok":
		return providers.PartOK
	case "warning", "critical":
		return providers.PartFailed
	}
	return ""
}

// linkOf reports whether a port has a link, if that is known.
func linkOf(status string) providers.PartState {
	switch strings.ToLower(strings.TrimSpace(status)) {
	case "up", "linkup":
		return providers.PartUp
	case "down", "linkdown", "nolink":
		return providers.PartDown
	}
	return ""
}
