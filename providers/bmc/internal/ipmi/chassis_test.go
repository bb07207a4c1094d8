package ipmi

import (
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

const bootParam = "Boot parameter version: 1\nBoot parameter 5 is valid/unlocked\nBoot parameter data: "

func TestParseBootFlags(t *testing.T) {
	for in, want := range map[string]providers.BootDevice{
		"8004000000": {Mode: "PXE"},
		"a004000000": {Mode: "PXE", UEFI: true},
		"e008000000": {Mode: "DISK", Persistent: true, UEFI: true},
		"c014000000": {Mode: "VIRTUAL_MEDIA", Persistent: true},
		"8020000000": {Mode: "VIRTUAL_MEDIA"},
		"0004000000": {ModeHidden: true}, // not valid or no longer valid
		"c000000000": {ModeHidden: true}, // no override
		"a000000000": {UEFI: true},
	} {
		got, err := parseBootFlags(bootParam+in+"\n Boot Flags :\n", access.Quirks{})
		if err != nil || got != want {
			t.Errorf("%s: got %+v (%v), want %+v", in, got, err, want)
		}
	}
	if _, err := parseBootFlags(bootParam+"zz", access.Quirks{}); err == nil {
		t.Error("parse invalid flags: got no error")
	}
}

func FuzzParseBootFlags(f *testing.F) {
	f.Add(bootParam + "8004000000")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseBootFlags(s, access.Quirks{}); err != nil && d != (providers.BootDevice{}) {
			t.Errorf("parse %q: got %+v and %v", s, d, err)
		}
	})
}

func TestParsePower(t *testing.T) {
	for in, want := range map[string]providers.PowerState{
		"Chassis Power is on\n":                             providers.PowerOn,
		"Discovered IPMB address 0x0\nChassis Power is off": providers.PowerOff,
		"":                                 providers.PowerUnknown,
		"Chassis Power is only a rumour\n": providers.PowerUnknown,
	} {
		if got := parsePower(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestKeptBoot checks that a BMC that does not report the EFI bit has kept the boot device. One
// that reports another device, or an unrequested EFI bit, has not.
func TestKeptBoot(t *testing.T) {
	uefi := providers.BootDevice{Mode: "PXE", UEFI: true}
	bios := providers.BootDevice{Mode: "PXE"}
	for _, tt := range []struct {
		name      string
		want, got providers.BootDevice
		quirks    access.Quirks
		kept      bool
	}{
		{"the same", uefi, uefi, access.Quirks{}, true},
		{"EFI bit not shown", uefi, bios, access.Quirks{}, true},
		{"unrequested EFI bit", bios, uefi, access.Quirks{}, false},
		{"another device", uefi, providers.BootDevice{Mode: "DISK", UEFI: true}, access.Quirks{}, false},
		{"not persistent", providers.BootDevice{Mode: "PXE", Persistent: true}, bios, access.Quirks{}, false},
		{"the device alone", providers.BootDevice{Mode: "PXE", Persistent: true}, bios,
			access.Quirks{SelectorOnly: true}, true},
		{"nothing", uefi, providers.BootDevice{ModeHidden: true}, access.Quirks{}, false},
	} {
		if got := keptBoot(tt.want, tt.got, tt.quirks); got != tt.kept {
			t.Errorf("%s: KeptBoot: got %t", tt.name, got)
		}
	}
}
