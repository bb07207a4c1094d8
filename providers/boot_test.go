package providers_test

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

func TestInMode(t *testing.T) {
	node := func(mode string) providers.Machine {
		return &holdfastv1.Machine{Node: &holdfastv1.NodeRecord{BootMode: mode}}
	}
	hidden, uefi := providers.BootDevice{ModeHidden: true}, providers.BootDevice{UEFI: true}
	for name, tt := range map[string]struct {
		asked, device string
		now           providers.BootDevice
		machine       providers.Machine
		uefi          bool
	}{
		"the BMC shows UEFI":              {"keep", "PXE", uefi, node("bios"), true},
		"the BMC shows legacy":            {"", "PXE", providers.BootDevice{}, node(""), false},
		"the node has UEFI":               {"", "DISK", providers.BootDevice{}, node("uefi"), true},
		"the node has BIOS":               {"keep", "DISK", providers.BootDevice{}, node("bios"), false},
		"unknown":                         {"", "PXE", hidden, node(""), true},
		"BIOS of the node":                {"", "PXE", hidden, node("bios"), false},
		"UEFI of the node":                {"", "PXE", hidden, node("uefi"), true},
		"UEFI requested":                  {"uefi", "PXE", providers.BootDevice{}, node("bios"), true},
		"BIOS requested":                  {"bios", "PXE", uefi, node("uefi"), false},
		"HTTP boot is UEFI":               {"", "HTTP", providers.BootDevice{}, node("bios"), true},
		"virtual media of a UEFI machine": {"", "VIRTUAL_MEDIA", uefi, node(""), true},
		"virtual media of a BIOS machine": {"", "VIRTUAL_MEDIA", providers.BootDevice{}, node("bios"), false},
	} {
		t.Run(name, func(t *testing.T) {
			want := providers.BootDevice{Mode: tt.device, Persistent: true, UEFI: tt.uefi}
			if got := (providers.BootDevice{Mode: tt.device, Persistent: true}).InMode(tt.asked, tt.now,
				tt.machine); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
