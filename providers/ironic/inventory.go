package ironic

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

var _ providers.InventoryReader = (*Provider)(nil)

// Inventory returns the result of Ironic's last inspection of the node, and its traits. For a node
// that was never inspected it returns the properties that users have set; Missing has the reason.
func (p *Provider) Inventory(
	ctx context.Context, m providers.Machine,
) (v *providers.Inventory, err error) {
	err = p.call(ctx, m, "read the inventory", false, func(ctx context.Context, s *session, id string) error {
		n, err := p.read(ctx, s, id)
		if err != nil {
			return err
		}
		v = &providers.Inventory{UUID: n.UUID, Traits: n.Traits}
		if !speaks(s.ServiceClient, stockVersion) {
			properties(v, n, "Ironic is older than 2023.1 and keeps no inventory")
			return nil
		}
		data, err := nodes.GetInventory(ctx, s.ServiceClient, id).Extract()
		switch {
		case status(err) == http.StatusNotFound:
			properties(v, n, "Ironic has not inspected the node")
			return nil
		case err != nil:
			return err
		}
		found(v, &data.Inventory)
		if len(v.CPUs)+len(v.Disks)+len(v.NICs) == 0 && v.MemoryBytes == 0 {
			properties(v, n, "Ironic's inspection found nothing")
		}
		return nil
	})
	return v, err
}

func found(v *providers.Inventory, i *inventory.InventoryType) {
	vendor := i.SystemVendor
	v.Manufacturer, v.Model, v.Serial = vendor.Manufacturer, vendor.ProductName, vendor.SerialNumber
	v.BIOS = vendor.Firmware.Version
	v.MemoryBytes = int64(i.Memory.PhysicalMb) << 20
	if i.CPU.Count > 0 {
		v.CPUs = []providers.CPU{{Model: i.CPU.ModelName, Threads: i.CPU.Count}}
	}
	for _, d := range i.Disks {
		media := "SSD"
		if d.Rotational {
			media = "HDD"
		}
		v.Disks = append(v.Disks, providers.Disk{
			Slot:   d.Name,
			Model:  strings.TrimSpace(d.Vendor + " " + d.Model),
			Serial: d.Serial,
			Bytes:  d.Size,
			Media:  media,
		})
	}
	for _, n := range i.Interfaces {
		v.NICs = append(v.NICs, providers.NIC{
			Name: n.Name,
			MAC:  strings.ToLower(n.MACAddress),
			Mbps: n.SpeedMbps,
			Link: map[bool]providers.PartState{true: providers.PartUp, false: providers.PartDown}[n.HasCarrier],
		})
	}
}

// properties uses the node's properties, which users have set: numbers, or strings of numbers.
func properties(v *providers.Inventory, n *node, why string) {
	v.Missing = append(v.Missing, why+": only the node's properties are shown")
	v.Unread = providers.PartKinds()
	var prop map[string]any
	if json.Unmarshal(n.Properties, &prop) != nil {
		return
	}
	number := func(key string) int64 {
		switch x := prop[key].(type) {
		case float64:
			return int64(x)
		case string:
			i, err := strconv.ParseInt(x, 10, 32)
			if err == nil {
				return i
			}
		}
		return 0
	}
	v.MemoryBytes = number("memory_mb") << 20
	if c := number("cpus"); c > 0 {
		v.CPUs = []providers.CPU{{Threads: int(c)}}
	}
	if gb := number("local_gb"); gb > 0 {
		v.Disks = []providers.Disk{{Bytes: gb << 30}}
	}
	if s, ok := prop["vendor"].(string); ok {
		v.Manufacturer = clip(s)
	}
}
