package step

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// TestContradictions checks which readings contradict what an operator declared. Another spelling,
// a serial number of the board, and ports that could not be read do not.
func TestContradictions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, serial string
		is           providers.Inventory
		want         []string
	}{
		{"the same in another spelling", "s 1", providers.Inventory{Serial: "S1 "}, nil},
		{"with separators", "SN-0001.A", providers.Inventory{Serial: " sn0001a"}, nil},
		{"a port in another spelling", "", providers.Inventory{NICs: []providers.NIC{{MAC: "52-54-00-AA-00-01"}}}, nil},
		{"the board's", "CN1", providers.Inventory{Serial: "TAG", BoardSerial: "CN1"}, nil},
		{"not shown", "S1", providers.Inventory{}, nil},
		{"another", "S1", providers.Inventory{Serial: "S2"},
			[]string{"the BMC reports serial number S2, declared is S1"}},
		{"another port", "", providers.Inventory{NICs: []providers.NIC{{MAC: "52:54:00:aa:00:02"}}}, []string{
			"the BMC reports no network port with the declared MAC address 52:54:00:aa:00:01"}},
		{"ports are unread", "", providers.Inventory{NICs: []providers.NIC{{MAC: "52:54:00:aa:00:02"}},
			Unread: []string{"nic"}}, nil},
	} {
		m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{Serial: tc.serial,
			MacAddresses: []string{"52:54:00:aa:00:01"}}}
		if diff := cmp.Diff(tc.want, contradictions(m, &tc.is)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestStatesOfParts checks that a state that is not known is recorded as that, and that a quantity
// that the record cannot hold is left out.
func TestStatesOfParts(t *testing.T) {
	t.Parallel()
	h := hardwareOf(&providers.Inventory{
		Memory: []providers.DIMM{{Slot: "A1", State: providers.PartOK}, {Slot: "A2"}},
		Disks:  []providers.Disk{{Slot: "1", State: providers.PartFailed}},
		NICs: []providers.NIC{{Name: "1", Link: providers.PartUp, Mbps: 1 << 40},
			{Name: "2", Link: providers.PartDown, Mbps: 10}, {Name: "3"}},
	})
	var got []string
	for _, p := range h.GetParts() {
		got = append(got, fmt.Sprint(p.GetKind(), " ", p.GetSlot(), " ", p.GetState(), " ", p.GetMbps()))
	}
	want := []string{"memory A1 ok 0", "memory A2 unknown 0", "disk 1 failed 0", "nic 1 up 0", "nic 2 down 10",
		"nic 3 unknown 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}
