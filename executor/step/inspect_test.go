package step

import (
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
		{"another", "S1", providers.Inventory{Serial: "S2"}, []string{"the BMC reports serial number S2, declared is S1"}},
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
