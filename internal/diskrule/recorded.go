package diskrule

import (
	"errors"
	"fmt"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Recorded returns the disk that a rule selects, by the recorded inventory. An error is
// certain if the inventory is that of the installer, which uses the same names; BMCs name disks
// differently and report fewer facts.
func Recorded(text string, h *holdfastv1.HardwareInventory) (disk string, sure bool, err error) {
	rule, err := Parse(text)
	if err != nil {
		return "", true, err
	}
	var disks []Disk
	for _, p := range h.GetParts() {
		if p.GetKind() == "disk" {
			disks = append(disks, Disk{Name: p.GetSlot(), Serial: p.GetSerial(), Model: p.GetModel(),
				SizeBytes: uint64(max(0, p.GetBytes()))})
		}
	}
	if len(disks) == 0 {
		return "", false, errors.New("no disk of this machine is recorded: holdfast machine inventory reads them if " +
			"the BMC reports them; the installer checks again")
	}
	for _, key := range []string{"wwn=", "rotational="} {
		if strings.Contains(text, key) {
			return "", false, fmt.Errorf("the rule needs %s, which is not recorded: the installer checks it",
				strings.TrimSuffix(key, "="))
		}
	}
	byHost := h.GetSource() == "installer"
	if strings.Contains(text, "name=") && !byHost {
		return "", false, errors.New("the rule needs the kernel's name of the disk, which the BMC does not report: the " +
			"installer checks it")
	}
	chosen, err := rule.Choose(disks)
	if err != nil {
		return "", byHost, err
	}
	return chosen.String(), byHost, nil
}
