package providers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

// TestDropPlaceholders checks that texts of unset fields identify neither machine nor part.
func TestDropPlaceholders(t *testing.T) {
	const unset = "To be filled by O.E.M."
	got := providers.Inventory{
		Manufacturer: "ACME", Model: "Default string", Serial: unset, BoardSerial: " B1 ",
		UUID: "00000000-0000-0000-0000-000000000000",
		CPUs: []providers.CPU{{Serial: unset}}, Memory: []providers.DIMM{{Serial: "NO DIMM"}},
		Disks: []providers.Disk{{Serial: "S1"}}, GPUs: []providers.Card{{Serial: "0"}},
		PCIe: []providers.Card{{Serial: "N/A"}},
	}
	got.DropPlaceholders()
	want := providers.Inventory{
		Manufacturer: "ACME", BoardSerial: "B1", CPUs: []providers.CPU{{}}, Memory: []providers.DIMM{{}},
		Disks: []providers.Disk{{Serial: "S1"}}, GPUs: []providers.Card{{}}, PCIe: []providers.Card{{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}
