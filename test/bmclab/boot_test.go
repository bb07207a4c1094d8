//go:build linux

package bmclab

import (
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// TestBootDevices checks that the firmware boots the device that was set, once or permanently.
func TestBootDevices(t *testing.T) {
	t.Parallel()
	l := open(t)
	cd := l.Files()
	for _, f := range bmcKinds() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			m := l.Machine("boots-" + f.name)
			remote := remote("m", f.start(l, m).Endpoint)
			p := provider(t, nil)
			ok := func(name string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			boots := func(want string) {
				t.Helper()
				ok("off", p.SetPower(t.Context(), providers.Op{}, remote, providers.ActionHardOff))
				m.Is("off", func(st chassis.State) bool { return !st.On })
				ok("on", p.SetPower(t.Context(), providers.Op{}, remote, providers.ActionOn))
				m.Is("up", func(st chassis.State) bool { return st.Up })
				if got := m.State().From; got != want {
					t.Errorf("booted from %s, want %s", got, want)
				}
			}
			set := func(d providers.BootDevice) {
				t.Helper()
				ok("set the boot device", p.SetBootDevice(t.Context(), providers.Op{}, remote, d))
			}
			set(providers.BootDevice{Mode: "PXE"})
			boots("net")
			boots("disk")
			if f.name == "ipmi" { // the simulator does not store the persistent flag, and IPMI has no virtual media
				return
			}
			set(providers.BootDevice{Mode: "VIRTUAL_MEDIA", Persistent: true})
			ok("insert", p.InsertMedia(t.Context(), providers.Op{}, remote, cd))
			boots("cd")
			boots("cd")
			ok("eject", p.EjectMedia(t.Context(), providers.Op{}, remote))
			set(providers.BootDevice{Mode: "DISK", Persistent: true})
			boots("disk")
		})
	}
}

// TestSoftOff waits until the operating system is up, because only then it handles a soft off.
func TestSoftOff(t *testing.T) {
	t.Parallel()
	l := open(t)
	m := l.Machine("soft")
	remote := remote("m", l.Redfish([]*Machine{m}).Endpoint)
	p := provider(t, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
	if err := p.SetPower(t.Context(), providers.Op{}, remote, providers.ActionSoftOff); err != nil {
		t.Fatal(err)
	}
	m.Is("off", func(st chassis.State) bool { return !st.On })
	done := m.Done()
	if n := len(done); n != 2 || done[0].What != "soft" || done[1].What != "down" {
		t.Errorf("effects: got %+v, want a soft off and a shutdown by the guest", done)
	}
}
