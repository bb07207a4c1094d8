package bmc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string][]string{
		"10.0.0.7":                           {"https://10.0.0.7", "", "", ""},
		"10.0.0.7:8443":                      {"https://10.0.0.7:8443", "", "", ""},
		"10.0.0.7:623":                       {"https://10.0.0.7:623", "623", "", "ipmi"},
		"fd00::7":                            {"https://[fd00::7]", "", "", ""},
		"[fd00::7]:443":                      {"https://[fd00::7]:443", "", "", ""},
		"bmc-7.example":                      {"https://bmc-7.example", "", "", ""},
		"ipmi://10.0.0.7":                    {"ipmi://10.0.0.7", "623", "", "ipmi"},
		"ipmi://10.0.0.7:6230":               {"ipmi://10.0.0.7:6230", "6230", "", "ipmi"},
		"https://x/redfish/v1/":              {"https://x", "", "", "redfish"},
		"https://x/redfish/v1/Systems/node2": {"https://x", "", "/redfish/v1/Systems/node2", "redfish"},
	} {
		redfish, ipmi, system, only, err := bmc.ParseEndpoint(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, []string{redfish, ipmi, system, string(only)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

// The boot flags do not end after a minute, and end in all other ways: what is set for once is for
// once.
func TestBootFlagsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	tool, asked := ipmitool(t)
	l := &lab{t: t, m: machine("m-1", "ipmi://127.0.0.1:1"),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	l.p = l.provider(func(c *bmc.Config) { c.Ipmitool, c.CommandTime = tool, 30*time.Second })
	l.power(providers.PowerOn) // steps look before they act
	l.ok("set", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE"}))
	var got []string
	for line := range strings.Lines(asked()) {
		if _, command, _ := strings.Cut(strings.TrimSpace(line), " -v "); strings.HasPrefix(command, "raw") ||
			strings.HasPrefix(command, "chassis bootdev") {
			got = append(got, command)
		}
	}
	if diff := cmp.Diff([]string{"raw 0x00 0x08 0x03 0x08", "chassis bootdev pxe"}, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"10.0.0.7", "https://a:b@c", "ipmi://[::1]:623", "//", "http://x/redfish/v1/Systems/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		redfish, _, _, _, err := bmc.ParseEndpoint(s)
		if err == nil && (redfish == "" || strings.Contains(redfish, "@")) {
			t.Errorf("%q gives %q", s, redfish)
		}
	})
}

const bootParam = "Boot parameter version: 1\nBoot parameter 5 is valid/unlocked\nBoot parameter data: "

func TestParseBootFlags(t *testing.T) {
	for in, want := range map[string]providers.BootDevice{
		"8004000000": {Mode: "PXE"},
		"a004000000": {Mode: "PXE", UEFI: true},
		"e008000000": {Mode: "DISK", Persistent: true, UEFI: true},
		"c014000000": {Mode: "VIRTUAL_MEDIA", Persistent: true},
		"8020000000": {Mode: "VIRTUAL_MEDIA"},
		"0004000000": {ModeHidden: true}, // they are not valid (any more)
		"c000000000": {ModeHidden: true}, // no override
		"a000000000": {UEFI: true},
	} {
		got, err := bmc.ParseBootFlags(bootParam + in + "\n Boot Flags :\n")
		if err != nil || got != want {
			t.Errorf("%s: got %+v (%v), want %+v", in, got, err, want)
		}
	}
	if _, err := bmc.ParseBootFlags(bootParam + "zz"); err == nil {
		t.Error("nonsense is read as flags")
	}
}

func FuzzParseBootFlags(f *testing.F) {
	f.Add(bootParam + "8004000000")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := bmc.ParseBootFlags(s); err != nil && d != (providers.BootDevice{}) {
			t.Errorf("%q gives %+v and %v", s, d, err)
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
		if got := bmc.ParsePower(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestParseEvent(t *testing.T) {
	at := time.Date(2026, 11, 21, 16, 20, 5, 0, time.UTC)
	for _, c := range []struct {
		row  []string
		want bmc.Event
	}{
		{[]string{"1f", "11/21/2026 16:20:05", "Power Supply PS2", "Failure detected : Asserted"},
			bmc.Event{ID: "1f", At: at, Sensor: "Power Supply PS2", Message: "Failure detected : Asserted"}},
		{[]string{"2", "11/21/26 16:20:05 UTC", "Fan", "x"}, bmc.Event{ID: "2", At: at, Sensor: "Fan", Message: "x"}},
		{[]string{"0", "Pre-Init 0000000000", "Temperature #0x30", "hot"},
			bmc.Event{ID: "0", Sensor: "Temperature #0x30", Message: "hot"}},
		{nil, bmc.Event{}},
	} {
		if diff := cmp.Diff(c.want, bmc.ParseEvent(c.row)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.row, diff)
		}
	}
}

// What ipmitool 1.8.19 was seen to say, and what its sources say it can.
func TestIPMIErrors(t *testing.T) {
	const end = "\nError: Unable to establish IPMI v2 / RMCP+ session\n"
	for out, want := range map[string]providers.Class{
		"> RAKP 2 HMAC is invalid" + end:                              providers.Auth,
		"RAKP 2 message indicates an error : unauthorized name" + end: providers.Auth,
		"RAKP 2 message indicates an error : unauthorized GUID" + end: providers.Auth,
		// The BMC has no session to spare, or has lost this one: the password has not been looked
		// at.
		"RAKP 2 message indicates an error : insufficient resources for session" + end:        providers.Transient,
		"RAKP 2 message indicates an error : invalid session ID" + end:                        providers.Transient,
		"RAKP 2 message indicates an error : inactive session ID" + end:                       providers.Transient,
		"RAKP 2 message indicates an error : illegal or unrecognized parameter" + end:         providers.Transient,
		"Error: Received an Unexpected Open Session Response\n> RAKP 2 HMAC is invalid" + end: providers.Transient,
		"Error in open session response message : invalid authentication algorithm" + end:     providers.Unsupported,
		end: providers.Timeout,
		"Set Chassis Power Control to Down/Off failed: Command not supported in present state\n": providers.Unsupported,
		"Set Session Privilege Level to ADMINISTRATOR failed: Insufficient privilege level\n":    providers.Auth,
		"Chassis Power Control failed: Node busy\n":                                              providers.Transient,
	} {
		if got := providers.ClassOf(bmc.IPMIError(t.Context(), errors.New("exit status 1"), out)); got != want {
			t.Errorf("%q: class %s, want %s", out, got, want)
		}
	}
}

// TestKeptBoot: a BMC that does not show the EFI bit has kept the boot device; one that shows
// another device, or EFI unasked, has not.
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
		{"EFI bit that nobody set", bios, uefi, access.Quirks{}, false},
		{"another device", uefi, providers.BootDevice{Mode: "DISK", UEFI: true}, access.Quirks{}, false},
		{"not persistent", providers.BootDevice{Mode: "PXE", Persistent: true}, bios, access.Quirks{}, false},
		{"the device alone", providers.BootDevice{Mode: "PXE", Persistent: true}, bios,
			access.Quirks{SelectorOnly: true}, true},
		{"nothing", uefi, providers.BootDevice{ModeHidden: true}, access.Quirks{}, false},
	} {
		if got := bmc.KeptBoot(tt.want, tt.got, tt.quirks); got != tt.kept {
			t.Errorf("%s: KeptBoot is %t", tt.name, got)
		}
	}
}
