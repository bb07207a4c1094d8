package bmclib

import (
	"testing"

	"github.com/bmc-toolbox/common"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

// TestBmclibInventory checks that firmware versions are kept, and that the inventory never counts
// as complete.
func TestBmclibInventory(t *testing.T) {
	t.Parallel()
	d := common.NewDevice()
	d.Vendor, d.Model, d.Serial = "ACME", "S1", "123"
	d.BIOS.Firmware, d.BMC.Firmware = &common.Firmware{Installed: "1.2"}, &common.Firmware{Installed: "3.4"}
	d.CPUs = []*common.CPU{{Common: common.Common{Model: "X", Status: &common.Status{Health: "OK"}}, Slot: "P0",
		Cores: 8, Threads: 16}}
	d.Memory = []*common.Memory{{ID: "A1", SizeBytes: 1 << 30}, {ID: "A2", SizeBytes: 1 << 30}}
	d.Drives = []*common.Drive{{Common: common.Common{Firmware: &common.Firmware{Installed: "7"},
		Status: &common.Status{Health: "Critical"}}, ID: "d0", CapacityBytes: 5}}
	d.NICs = []*common.NIC{{ID: "n0",
		NICPorts: []*common.NICPort{{ID: "p0", MacAddress: "AA:BB:CC:DD:EE:FF", SpeedBits: 25e9, LinkStatus: "Up"}}}}
	got := vendorInventory(&d)
	if len(got.Missing) == 0 || len(got.Unread) == 0 {
		t.Error("got a complete inventory, want an incomplete one")
	}
	got.Missing, got.Unread = nil, nil
	want := &providers.Inventory{
		Manufacturer: "ACME", Model: "S1", Serial: "123", BIOS: "1.2", BMC: "3.4", MemoryBytes: 2 << 30,
		CPUs:   []providers.CPU{{Slot: "P0", Model: "X", Cores: 8, Threads: 16, State: providers.PartOK}},
		Memory: []providers.DIMM{{Slot: "A1", Bytes: 1 << 30}, {Slot: "A2", Bytes: 1 << 30}},
		Disks:  []providers.Disk{{Slot: "d0", Bytes: 5, Firmware: "7", State: providers.PartFailed}},
		NICs:   []providers.NIC{{Name: "p0", MAC: "aa:bb:cc:dd:ee:ff", Mbps: 25000, Link: providers.PartUp}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}
