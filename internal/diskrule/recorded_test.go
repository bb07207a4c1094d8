package diskrule

import (
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The choice of a rule before the installer runs is sure only if the installer would choose the
// same disk.
func TestChooseDisk(t *testing.T) {
	disk := func(slot, serial string, bytes int64) *holdfastv1.HardwarePart {
		return &holdfastv1.HardwarePart{Kind: "disk", Slot: slot, Serial: serial, Bytes: &bytes}
	}
	two := []*holdfastv1.HardwarePart{disk("sda", "A", 960e9), disk("sdb", "B", 480e9), {Kind: "nic", Slot: "eth0"}}
	bmc, host := &holdfastv1.HardwareInventory{Parts: two}, &holdfastv1.HardwareInventory{Parts: two, Source: "installer"}
	for name, tt := range map[string]struct {
		rule string
		of   *holdfastv1.HardwareInventory
		sure bool
		want string
	}{
		"no rule, of no machine":          {"by=first", nil, true, "use smallest or largest"},
		"a rule, of no machine":           {"by=smallest", nil, false, "no disk of this machine is recorded"},
		"the smallest":                    {"by=smallest", host, true, "sdb"},
		"the BMC's word":                  {"serial=A", bmc, false, "sda"},
		"two that match, for the BMC":     {"", bmc, false, "2 disks qualify"},
		"two that match":                  {"", host, true, "2 disks qualify"},
		"name, unknown to the BMC":        {"name=sda", bmc, false, "the installer checks it"},
		"unrecorded property":             {"wwn=5", host, false, "wwn"},
		"none that matches, for the host": {"serial=C", host, true, "its serial is not C"},
	} {
		got, sure, err := Recorded(tt.rule, tt.of)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || sure != tt.sure {
			t.Errorf("%s: got %q, sure %v, want %q, %v", name, got, sure, tt.want, tt.sure)
		}
	}
}
