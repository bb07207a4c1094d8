package bmc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

func redfishOnly(c *bmc.Config) { c.Protocol = bmc.Redfish }

func (l *lab) effects(name string) (all []string) {
	for _, e := range l.s.Effects(name) {
		all = append(all, e.Name+" "+e.Detail)
	}
	return all
}

func TestEachPressIsOneReset(t *testing.T) {
	l := newLab(t, redfishtest.Config{PowerTime: 30 * time.Millisecond}, redfishOnly)
	for _, a := range []providers.PowerAction{providers.ActionSoftOff, providers.ActionOn, providers.ActionHardOff} {
		l.ok(string(a), l.p.SetPower(l.ctx, op("power"), l.m, a))
		want := providers.PowerOff
		if a == providers.ActionOn {
			want = providers.PowerOn
		}
		l.power(want)
	}
	want := []string{"reset GracefulShutdown", "reset On", "reset ForceOff"}
	if diff := cmp.Diff(want, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestPowerOffWhenOff(t *testing.T) {
	l := newLab(t, redfishtest.Config{Off: true}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.OffIsAnError = true })
	l.ok("off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff))
	l.ok("soft off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionSoftOff))
	if got := l.effects(""); got != nil {
		t.Errorf("got effects %v, want none", got)
	}
}

func TestMissingOperationIsUnsupported(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.ResetTypes = []string{"On", "ForceOff"} })
	err := l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionSoftOff)
	l.class("soft off", err, providers.Unsupported)
	if !strings.Contains(err.Error(), "it supports On, ForceOff") {
		t.Errorf("error: got %v, want the supported values", err)
	}
	if got := l.effects(""); got != nil {
		t.Errorf("got effects %v, want none", got)
	}
}

func TestPOSTIsTransient(t *testing.T) {
	l := newLab(t, redfishtest.Config{Off: true, PostTime: time.Hour}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.InPOST = true })
	l.ok("on", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn))
	boot := providers.BootDevice{Mode: "PXE", UEFI: true}
	l.class("boot device in POST", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, boot), providers.Transient)
	l.class("off in POST", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff), providers.Transient)
	l.s.Set(func(q *redfishtest.Quirks) { q.InPOST = false })
	l.eventually("the boot device after POST",
		func() bool { return l.p.SetBootDevice(l.ctx, op("netboot"), l.m, boot) == nil })
}

// A BMC whose web server starts before its data answers 404, which ends no run.
func TestStartingBMCIsTransient(t *testing.T) {
	t.Parallel()
	power := func(p *bmc.Provider, l *lab) error {
		_, err := p.PowerState(l.ctx, l.m)
		return err
	}
	named := func(p *bmc.Provider, l *lab) error {
		_, err := p.PowerState(l.ctx, machine("m-2", l.url+"/redfish/v1/Systems/1"))
		return err
	}
	media := func(p *bmc.Provider, l *lab) error {
		_, err := p.Media(l.ctx, l.m)
		return err
	}
	reset := func(p *bmc.Provider, l *lab) error { return p.ResetBMC(l.ctx, op("recover"), l.m) }
	for _, c := range []struct {
		name, missing string
		do            func(*bmc.Provider, *lab) error
		quirk         func(*redfishtest.Quirks)
		known         bool // the leader has read it before
		class         providers.Class
	}{
		{name: "root", missing: "/redfish/v1", do: power, class: providers.Transient},
		{name: "sessions", missing: "/redfish/v1/SessionService/Sessions", do: power, class: providers.Transient},
		{name: "systems", missing: "/redfish/v1/Systems", do: power, class: providers.Transient},
		{name: "systems, basic authentication", missing: "/redfish/v1/Systems", do: power,
			quirk: func(q *redfishtest.Quirks) { q.NoSessions = true }, class: providers.Transient},
		{name: "system", missing: "/redfish/v1/Systems/1", do: power, class: providers.Transient},
		{name: "system read before", missing: "/redfish/v1/Systems/1", do: power, known: true, class: providers.Transient},
		{name: "no systems yet", do: named, quirk: func(q *redfishtest.Quirks) { q.NoSystems = true },
			class: providers.Transient},
		{name: "manager", missing: "/redfish/v1/Managers/1", do: reset, class: providers.Transient},
		{name: "manager of the media", missing: "/redfish/v1/Managers/1", do: media, class: providers.Transient},
		{name: "slot read before", missing: "/redfish/v1/Managers/1/VirtualMedia/Cd1", do: media, known: true,
			class: providers.Transient},
		{name: "action", missing: "/redfish/v1/Managers/1/Actions/Manager.Reset", do: reset, class: providers.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			if c.known {
				l.ok("read", power(l.p, l))
				l.ok("read", c.do(l.p, l))
			}
			l.s.Set(func(q *redfishtest.Quirks) {
				q.Missing = []string{c.missing}
				if c.quirk != nil {
					c.quirk(q)
				}
			})
			err := c.do(l.p, l)
			l.class("while it starts", err, c.class)
			l.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
			l.ok("when it has started", c.do(l.p, l))
		})
	}
}

func TestBootDevice(t *testing.T) {
	pxe := providers.BootDevice{Mode: "PXE", UEFI: true}
	for _, c := range []struct {
		name    string
		quirks  func(*redfishtest.Quirks)
		set     providers.BootDevice
		class   providers.Class // empty: success
		effects []string
	}{
		{"once", nil, pxe, "", []string{"boot Pxe Once UEFI"}},
		{"persistent, legacy", nil, providers.BootDevice{Mode: "DISK", Persistent: true}, "",
			[]string{"boot Hdd Continuous Legacy"}},
		{"HTTP", nil, providers.BootDevice{Mode: "HTTP", UEFI: true}, "", []string{"boot UefiHttp Once UEFI"}},
		{"virtual media", nil, providers.BootDevice{Mode: "VIRTUAL_MEDIA", UEFI: true}, "", []string{"boot Cd Once UEFI"}},
		{"accepted, but nothing happens", func(q *redfishtest.Quirks) { q.Ignore = []string{"boot"} }, pxe,
			providers.Transient, []string{"boot Pxe Once UEFI"}},
		{"current mode refused", func(q *redfishtest.Quirks) { q.RefuseMode = true }, pxe, "",
			[]string{"boot Pxe Once UEFI"}},
		{"other mode refused", func(q *redfishtest.Quirks) { q.RefuseMode = true },
			providers.BootDevice{Mode: "PXE"}, providers.Unsupported, nil},
		{"UEFI only", func(q *redfishtest.Quirks) { q.UEFIOnly = true }, pxe, "", []string{"boot Pxe Once UEFI"}},
		{"legacy on UEFI only", func(q *redfishtest.Quirks) { q.UEFIOnly = true },
			providers.BootDevice{Mode: "PXE"}, providers.Unsupported, nil},
		{"no boot mode", func(q *redfishtest.Quirks) { q.NoMode = true }, pxe, "", []string{"boot Pxe Once UEFI"}},
		{"legacy without a mode", func(q *redfishtest.Quirks) { q.NoMode = true },
			providers.BootDevice{Mode: "PXE"}, providers.Unsupported, nil},
		{"own ETag refused", func(q *redfishtest.Quirks) { q.OwnETag = true }, pxe, "",
			[]string{"boot Pxe Once UEFI"}},
		{"unknown mode", nil, providers.BootDevice{Mode: "FLOPPY"}, providers.Unsupported, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			if c.quirks != nil {
				l.s.Set(c.quirks)
			}
			err := l.p.SetBootDevice(l.ctx, op("netboot"), l.m, c.set)
			if c.class == "" {
				l.ok("set", err)
				got, err := l.p.BootDevice(l.ctx, l.m)
				l.ok("read", err)
				if got != c.set {
					t.Errorf("boot device: got %+v, want %+v", got, c.set)
				}
			} else {
				l.class("set", err, c.class)
			}
			if diff := cmp.Diff(c.effects, l.effects("boot")); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// A one-time override applies to one boot. After that, the machine boots from its disk.
func TestBootOnce(t *testing.T) {
	l := newLab(t, redfishtest.Config{Off: true}, redfishOnly)
	l.ok("boot device", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	l.ok("on", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn))
	l.eventually("a boot from the network", func() bool { return l.s.Booted("1") == "Pxe" })
	got, err := l.p.BootDevice(l.ctx, l.m)
	l.ok("read", err)
	if want := (providers.BootDevice{UEFI: true}); got != want {
		t.Errorf("boot device after the boot: got %+v, want %+v", got, want)
	}
}

// A change by another client between the read and the PATCH is detected, and the PATCH is repeated.
func TestConcurrentChangeOfSystem(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	other := l.provider(redfishOnly)
	if _, err := l.p.BootDevice(l.ctx, l.m); err != nil { // keeps the ETag
		t.Fatal(err)
	}
	l.ok("identify", other.Identify(l.ctx, op("rma"), l.m, true))
	l.ok("boot device", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	if diff := cmp.Diff([]string{"identify true", "boot Pxe Once UEFI"}, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestMediaIsVerified(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	const url = "http://192.0.2.1/boot.iso?token=hush"
	l.ok("eject of nothing", l.p.EjectMedia(l.ctx, op("media"), l.m))
	l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, url))
	l.ok("insert what is there", l.p.InsertMedia(l.ctx, op("media"), l.m, url))
	err := l.p.InsertMedia(l.ctx, op("media"), l.m, "http://192.0.2.1/other.iso")
	l.class("insert another", err, providers.Transient)
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("error: got %v with the URL, which may have a secret", err)
	}
	l.ok("eject", l.p.EjectMedia(l.ctx, op("media"), l.m))
	want := []string{"media_insert " + url, "media_eject " + url}
	if diff := cmp.Diff(want, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestInventoryEventsAndProgress(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	v, err := l.p.Inventory(l.ctx, l.m)
	l.ok("inventory", err)
	want := &providers.Inventory{
		Manufacturer: "Contoso", Model: "Model 9", Serial: "SN-0001", UUID: "38947555-7742-3448-3784-000000000001",
		BIOS: "P79 v1.45", BMC: "3.05",
		CPUs: []providers.CPU{{Slot: "CPU 1", Model: "Contoso 9654", Cores: 96, Threads: 192, Serial: "C1",
			State: providers.PartOK},
			{Slot: "CPU 2", Model: "Contoso 9654", Cores: 96, Threads: 192, Serial: "C2", State: providers.PartOK}},
		Memory: []providers.DIMM{{Slot: "DIMM A1", Bytes: 32 << 30, Type: "DDR5", Serial: "D1",
			State: providers.PartOK},
			{Slot: "DIMM A2", Bytes: 32 << 30, Type: "DDR5", Serial: "D2", State: providers.PartOK},
			{Slot: "DIMM A3", Bytes: 32 << 30, Type: "DDR5", Serial: "D3", State: providers.PartFailed}},
		MemoryBytes: 96 << 30,
		Disks: []providers.Disk{{Slot: "1", Model: "Contoso PM9", Serial: "S1", Bytes: 960197124096, Media: "SSD",
			Firmware: "1.2", State: providers.PartOK},
			{Slot: "2", Model: "Contoso PM9", Serial: "S2", Bytes: 960197124096, Media: "SSD", Firmware: "1.2",
				State: providers.PartFailed}},
		GPUs: []providers.Card{{Slot: "GPU 1", Model: "Contoso X100", Serial: "G1", Firmware: "96.00",
			State: providers.PartOK}},
		PCIe: []providers.Card{{Slot: "1", Model: "Contoso X100", Serial: "G1", Firmware: "96.00",
			State: providers.PartOK}},
		NICs: []providers.NIC{{Name: "1", MAC: "52:54:00:aa:00:01", Mbps: 25000, Link: providers.PartUp},
			{Name: "2", MAC: "52:54:00:aa:00:02", Mbps: 25000, Link: providers.PartDown}},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	l.s.Log("1", "Critical", "Power supply 2 has failed.")
	all, err := l.p.Events(l.ctx, l.m, "")
	l.ok("events", err)
	if len(all) != 2 || all[1].Severity != "Critical" || all[1].Message != "Power supply 2 has failed." ||
		time.Since(all[1].At) > time.Minute {
		t.Errorf("got events %+v, want two, the last one critical", all)
	}
	if reads, _ := l.s.Most(); reads > 2 {
		t.Errorf("got %d reads at once, want at most 2", reads)
	}
}

// A machine with a known serial number is found in its new slot.
func TestSledsAreSwapped(t *testing.T) {
	l := newLab(t, redfishtest.Config{Systems: []string{"node1", "node2"}}, redfishOnly)
	l.m.Spec.Serial = "SN-0001"
	l.power(providers.PowerOn)
	l.s.SwapSleds()
	l.power(providers.PowerOn) // each step reads before it presses
	l.ok("off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff))
	if e := l.s.Effects("reset"); len(e) != 1 || e[0].System != "node2" {
		t.Errorf("resets: got %v, want one of node2, the new slot", e)
	}
	l.m.Spec.Serial = "SN-0009"
	l.class("unknown serial number", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn), providers.Unsupported)
}

// The right one of several systems is used, or none.
func TestSystemsBehindOneBMC(t *testing.T) {
	l := newLab(t, redfishtest.Config{Systems: []string{"node1", "node2"}}, redfishOnly)
	l.class("which one?", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff), providers.Unsupported)
	byPath := machine("m-2", l.url+"/redfish/v1/Systems/node2")
	l.ok("by its path", l.p.SetPower(l.ctx, op("power"), byPath, providers.ActionHardOff))
	bySerial := machine("m-1", l.url)
	bySerial.Spec.Serial = "SN-0001"
	l.ok("by its serial number", l.p.SetPower(l.ctx, op("power"), bySerial, providers.ActionHardOff))
	l.class("none such", l.p.SetPower(l.ctx, op("power"), machine("m-3", l.url+"/redfish/v1/Systems/node3"),
		providers.ActionHardOff), providers.Gone)
	var got []string
	for _, e := range l.s.Effects("reset") {
		got = append(got, e.System)
	}
	if diff := cmp.Diff([]string{"node2", "node1"}, got); diff != "" {
		t.Errorf("reset systems (-want +got):\n%s", diff)
	}
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("got %d sessions, want one for the BMC", n)
	}
}

// An effect is refused if its time passes during the login, and finds the session at the next try.
func TestLateAfterSlowLogin(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.Latency = 150 * time.Millisecond })
	soon := func() context.Context { return providers.WithNotAfter(l.ctx, time.Now().Add(time.Minute)) }
	l.class("first", l.p.SetPower(providers.WithNotAfter(l.ctx, time.Now().Add(250*time.Millisecond)), op("power"), l.m,
		providers.ActionHardOff), providers.Late)
	if got := l.effects(""); got != nil {
		t.Fatalf("got effects %v after a late one, want none", got)
	}
	l.ok("second", l.p.SetPower(soon(), op("power"), l.m, providers.ActionHardOff))
	l.class("boot device, first", l.p.SetBootDevice(providers.WithNotAfter(l.ctx, time.Now().Add(time.Millisecond)),
		op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}), providers.Late)
	l.ok("boot device, second",
		l.p.SetBootDevice(soon(), op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	if diff := cmp.Diff([]string{"reset ForceOff", "boot Pxe Once UEFI"}, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if n := l.s.Logins(); n != 1 {
		t.Errorf("got %d logins, want 1, because the late one keeps its session", n)
	}
}

// A lost answer leaves the outcome unknown.
func TestLostAnswerIsTimeout(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	l.s.Set(func(q *redfishtest.Quirks) { q.Drop = 1 })
	l.class("off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff), providers.Timeout)
	if got := l.effects(""); len(got) != 1 {
		t.Errorf("got effects %v, want one, without a second request", got)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, ""},
		{`{"protocol": "ipmi", "cipher_suite": "3", "command_time": "8s", "tls": "insecure"}`, ""},
		{`{"protocol": "amt"}`, `protocol "amt" is not one of redfish, ipmi, auto`},
		{`{"pasword": "x"}`, `unknown key "pasword"`},
		{`{"tls": "off"}`, `tls is "off"`},
		{`{"timeout": 5}`, `write it as text with a unit`},
		{`{"ipmi_gap": "0s", "timeout": null}`, ""},
		{`{"tls": "insecure", "ca_file": "x"}`, "has no effect with"},
	} {
		_, err := bmc.ParseConfig([]byte(c.in))
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("ParseConfig(%s): got %v, want %q", c.in, err, c.want)
		}
	}
}

func TestAccountsPrintNoPassword(t *testing.T) {
	a := bmc.Account{User: "admin", Password: "hush"}
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(f, a); strings.Contains(got, "hush") {
			t.Errorf("print with %s: got %s", f, got)
		}
	}
	if b, err := json.Marshal(a); err != nil || strings.Contains(string(b), "hush") {
		t.Errorf("JSON: got %s (%v), want no password", b, err)
	}
}
