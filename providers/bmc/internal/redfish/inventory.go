package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Inventory reads the parts of the machine. A part that cannot be read is listed in Missing.
func (h *Host) Inventory(ctx context.Context) (*providers.Inventory, error) {
	s, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	v := &providers.Inventory{
		Manufacturer: s.Manufacturer,
		Model:        s.Model,
		Serial:       s.SerialNumber,
		UUID:         s.UUID,
		BIOS:         s.BiosVersion,
	}
	at := view{ctx, h.c}
	part := func(name, link string, read func() error) {
		if link == "" {
			v.Missing = append(v.Missing, name+": not shown by the BMC")
		} else if err := read(); err != nil {
			v.Missing = append(v.Missing, name+": "+text.Clip(err.Error(), access.MaxText))
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
			switch {
			case p.Status.State == common.AbsentState:
				continue
			case p.ProcessorType == redfish.GPUProcessorType || p.ProcessorType == redfish.AcceleratorProcessorType:
				v.GPUs = append(v.GPUs, providers.Card{
					Slot:     cmp.Or(p.Socket, p.ID),
					Model:    strings.TrimSpace(p.Manufacturer + " " + p.Model),
					Serial:   p.SerialNumber,
					Firmware: p.FirmwareVersion,
					Healthy:  healthy(p.Status),
				})
				continue
			case p.ProcessorType != "" && p.ProcessorType != redfish.CPUProcessorType:
				continue
			}
			v.CPUs = append(v.CPUs, providers.CPU{
				Slot:    cmp.Or(p.Socket, p.ID),
				Model:   p.Model,
				Cores:   p.TotalCores,
				Threads: p.TotalThreads,
				Serial:  p.SerialNumber,
				Healthy: healthy(p.Status),
			})
		}
		return err
	})
	part("memory", s.Memory.ID, func() error {
		all, err := redfish.ListReferencedMemorys(at, s.Memory.ID)
		for _, m := range all {
			if m.Status.State == common.AbsentState || m.CapacityMiB == 0 {
				continue
			}
			d := providers.DIMM{
				Slot:    cmp.Or(m.DeviceLocator, m.ID),
				Bytes:   int64(m.CapacityMiB) << 20,
				Type:    string(m.MemoryDeviceType),
				Serial:  m.SerialNumber,
				Healthy: healthy(m.Status),
			}
			v.Memory = append(v.Memory, d)
			v.MemoryBytes += d.Bytes
		}
		return err
	})
	part("disks", s.Storage.ID, func() error { return readDisks(v, at, s.Storage.ID) })
	part("network ports", s.EthernetInterfaces.ID, func() error {
		all, err := redfish.ListReferencedEthernetInterfaces(at, s.EthernetInterfaces.ID)
		for _, e := range all {
			mac := strings.ToLower(cmp.Or(e.PermanentMACAddress, e.MACAddress))
			v.NICs = append(v.NICs, providers.NIC{
				Name: cmp.Or(e.ID, path.Base(e.ODataID)),
				MAC:  strings.ReplaceAll(mac, "-", ":"),
				Mbps: e.SpeedMbps,
				Up:   e.LinkStatus == redfish.LinkUpLinkStatus,
			})
		}
		return err
	})
	if devices := s.resource.Links("PCIeDevices"); len(devices) > 0 { // older services do not show them
		part("PCIe devices", "PCIeDevices", func() error { return readPCIe(v, at, devices) })
	}
	sortParts(v)
	return v, nil
}

// maxPCIe bounds how many PCIe devices are read. Each costs a request.
const maxPCIe = 128

// readPCIe reads the PCIe devices of the system.
func readPCIe(v *providers.Inventory, at view, devices []string) error {
	var errs []error
	for n, l := range devices {
		if n == maxPCIe {
			errs = append(errs, fmt.Errorf("%d of %d are not read", len(devices)-maxPCIe, len(devices)))
			break
		}
		d, err := redfish.GetPCIeDevice(at, l)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if d.Status.State != common.AbsentState {
			v.PCIe = append(v.PCIe, providers.Card{
				Slot:     cmp.Or(d.Slot.Location.PartLocation.ServiceLabel, d.ID),
				Model:    strings.TrimSpace(d.Manufacturer + " " + cmp.Or(d.Model, d.Name)),
				Serial:   d.SerialNumber,
				Firmware: d.FirmwareVersion,
				Healthy:  healthy(d.Status),
			})
		}
	}
	return errors.Join(errs...)
}

// readDisks reads the drives of all storage controllers.
func readDisks(v *providers.Inventory, at view, storage string) error {
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
			v.Disks = append(v.Disks, providers.Disk{
				Slot:     d.ID,
				Model:    d.Model,
				Serial:   d.SerialNumber,
				Bytes:    d.CapacityBytes,
				Media:    string(d.MediaType),
				Firmware: cmp.Or(d.FirmwareVersion, d.Revision),
				Healthy:  healthy(d.Status) && !d.FailurePredicted,
			})
		}
		if err != nil {
			return fmt.Errorf("controller %s: %w", c.ID, err)
		}
	}
	return nil
}

// sortParts sorts all parts, because members are read in parallel.
func sortParts(v *providers.Inventory) {
	slices.SortFunc(v.CPUs, func(a, b providers.CPU) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(v.Memory, func(a, b providers.DIMM) int { return strings.Compare(a.Slot, b.Slot) })
	slices.SortFunc(v.Disks, func(a, b providers.Disk) int { return strings.Compare(a.Slot, b.Slot) })
	for _, cards := range [][]providers.Card{v.GPUs, v.PCIe} {
		slices.SortFunc(cards, func(a, b providers.Card) int { return strings.Compare(a.Slot, b.Slot) })
	}
	slices.SortFunc(v.NICs, func(a, b providers.NIC) int { return strings.Compare(a.Name, b.Name) })
}

// healthy reports whether no fault is known.
func healthy(s common.Status) bool { return s.Health == "" || s.Health == common.OKHealth }
