package providers_test

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

func TestKeepMode(t *testing.T) {
	node := func(mode string) providers.Machine {
		return &holdfastv1.Machine{Node: &holdfastv1.NodeRecord{BootMode: mode}}
	}
	for name, tt := range map[string]struct {
		want, now providers.BootDevice
		machine   providers.Machine
		uefi      bool
	}{
		"the BMC shows UEFI":              {providers.BootDevice{Mode: "PXE"}, providers.BootDevice{UEFI: true}, node("bios"), true},
		"the BMC shows legacy":            {providers.BootDevice{Mode: "PXE"}, providers.BootDevice{}, &holdfastv1.Machine{}, false},
		"the node has UEFI":               {providers.BootDevice{Mode: "DISK"}, providers.BootDevice{}, node("uefi"), true},
		"the node has BIOS":               {providers.BootDevice{Mode: "DISK"}, providers.BootDevice{}, node("bios"), false},
		"UEFI is asked for":               {providers.BootDevice{Mode: "PXE", UEFI: true}, providers.BootDevice{}, node("bios"), true},
		"HTTP boot is UEFI":               {providers.BootDevice{Mode: "HTTP"}, providers.BootDevice{}, node("bios"), true},
		"virtual media of a UEFI machine": {providers.BootDevice{Mode: "VIRTUAL_MEDIA"}, providers.BootDevice{UEFI: true}, &holdfastv1.Machine{}, true},
		"virtual media of a BIOS machine": {providers.BootDevice{Mode: "VIRTUAL_MEDIA"}, providers.BootDevice{}, node("bios"), false},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			want.UEFI = tt.uefi
			if got := tt.want.KeepMode(tt.now, tt.machine); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
