package bmc

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"
)

// inventory reads what is in the machine. A part that cannot be read is named, not left out in silence.
func (h *redfishHost) inventory(ctx context.Context) (*Inventory, error) {
	s, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	v := &Inventory{Manufacturer: s.Manufacturer, Model: s.Model, Serial: s.SerialNumber, UUID: s.UUID, BIOS: s.BiosVersion}
	at := view{ctx, h.c}
	part := func(name, link string, read func() error) {
		if link == "" {
			v.Missing = append(v.Missing, name+": the BMC does not show it")
		} else if err := read(); err != nil {
			v.Missing = append(v.Missing, name+": "+clip(err.Error(), maxText))
		}
	}
	part("firmware of the BMC", "manager", func() error {
		m, err := h.manager(ctx)
		if err != nil {
			return err
		}
		var manager struct{ FirmwareVersion string }
		_, err = h.c.get(ctx, m, &manager)
		v.BMC = manager.FirmwareVersion
		return err
	})
	part("processors", s.Processors.ID, func() error {
		all, err := redfish.ListReferencedProcessors(at, s.Processors.ID)
		for _, p := range all {
			if p.Status.State == common.AbsentState || p.ProcessorType != "" && p.ProcessorType != redfish.CPUProcessorType {
				continue
			}
			v.CPUs = append(v.CPUs, CPU{Slot: first(p.Socket, p.ID), Model: p.Model, Cores: p.TotalCores, Threads: p.TotalThreads, Serial: p.SerialNumber, Healthy: healthy(p.Status)})
		}
		return err
	})
	part("memory", s.Memory.ID, func() error {
		all, err := redfish.ListReferencedMemorys(at, s.Memory.ID)
		for _, m := range all {
			if m.Status.State == common.AbsentState || m.CapacityMiB == 0 {
				continue
			}
			d := DIMM{Slot: first(m.DeviceLocator, m.ID), Bytes: int64(m.CapacityMiB) << 20, Type: string(m.MemoryDeviceType), Serial: m.SerialNumber, Healthy: healthy(m.Status)}
			v.Memory = append(v.Memory, d)
			v.MemoryBytes += d.Bytes
		}
		return err
	})
	part("disks", s.Storage.ID, func() error { return readDisks(v, at, s.Storage.ID) })
	part("network ports", s.EthernetInterfaces.ID, func() error {
		all, err := redfish.ListReferencedEthernetInterfaces(at, s.EthernetInterfaces.ID)
		for _, e := range all {
			mac := strings.ToLower(first(e.PermanentMACAddress, e.MACAddress))
			v.NICs = append(v.NICs, NIC{Name: first(e.ID, path.Base(e.ODataID)), MAC: strings.ReplaceAll(mac, "-", ":"), Mbps: e.SpeedMbps, Up: e.LinkStatus == redfish.LinkUpLinkStatus})
		}
		return err
	})
	sortParts(v)
	return v, nil
}

// readDisks reads the drives of all storage controllers.
func readDisks(v *Inventory, at view, storage string) error {
	controllers, err := redfish.ListReferencedStorages(at, storage)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		drives, err := c.Drives()
		for _, d := range drives {
			if d.Status.State == common.AbsentState {
				continue
			}
			v.Disks = append(v.Disks, Disk{Slot: d.ID, Model: d.Model, Serial: d.SerialNumber, Bytes: d.CapacityBytes, Media: string(d.MediaType),
				Firmware: first(d.FirmwareVersion, d.Revision), Healthy: healthy(d.Status) && !d.FailurePredicted})
		}
		if err != nil {
			return fmt.Errorf("controller %s: %w", c.ID, err)
		}
	}
	return nil
}

// sortParts puts everything into one order: members are read in parallel.
func sortParts(v *Inventory) {
	slices.SortFunc(v.CPUs, func(a, b CPU) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(v.Memory, func(a, b DIMM) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(v.Disks, func(a, b Disk) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(v.NICs, func(a, b NIC) int { return strings.Compare(a.Name, b.Name) })
}

// healthy says that nothing is known to be wrong.
func healthy(s common.Status) bool { return s.Health == "" || s.Health == common.OKHealth }

func first(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}
