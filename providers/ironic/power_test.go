package ironic_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
)

// A short lock is waited for. By then the effect is late, is refused like other late ones, and did
// not happen.
func TestLockedNode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patience time.Duration // time to wait for the lock
		released bool
		valid    time.Duration
		want     providers.Class
	}{
		"released in time":  {time.Minute, true, time.Minute, ""},
		"released too late": {time.Minute, true, 50 * time.Millisecond, providers.Late},
		"not released":      {600 * time.Millisecond, false, time.Minute, providers.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, m := newLab(t, ironictest.Node{Locked: "conductor-9"},
				func(c *ironic.Config) { c.LockTime = ironic.Duration(tt.patience) })
			_, _ = p.PowerState(t.Context(), m) // opens the session
			notAfter := time.Now().Add(tt.valid)
			if tt.released {
				release := 150 * time.Millisecond
				if tt.want == providers.Late {
					release = time.Until(notAfter) + 100*time.Millisecond // on any machine
				}
				free := time.AfterFunc(release, func() { s.Change("n1", func(n *ironictest.Node) { n.Locked = "" }) })
				defer free.Stop()
			}
			err := p.SetPower(providers.WithNotAfter(t.Context(), notAfter), providers.Op{}, m, providers.ActionHardOff)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || providers.ClassOf(err) != tt.want) {
				t.Errorf("got %v, want class %q", err, tt.want)
			}
			if tt.want == providers.Transient && !strings.Contains(err.Error(), "is locked by host conductor-9") {
				t.Errorf("got %v, want the holder of the lock", err)
			}
			want := 0
			if tt.want == "" {
				want = 1
			}
			if n := s.Count("n1 power: power off"); n != want {
				t.Errorf("got %d presses, want %d", n, want)
			}
		})
	}
}

// If Ironic answers 202 and the press fails later, its error is returned by the next read of the
// power.
func TestFailedPress(t *testing.T) {
	t.Parallel()
	for says, class := range map[string]providers.Class{
		"Failed to set power: BMC is busy":            providers.Failed,
		"HTTP POST https://b returned code 401":       providers.Auth,
		"Driver x does not support power off by wire": providers.Unsupported,
	} {
		s, p, m := newLab(t, ironictest.Node{})
		s.Set(func(f *ironictest.Faults) { f.FailPower = says })
		if err := p.SetPower(inTime(t), providers.Op{}, m, providers.ActionHardOff); err != nil {
			t.Fatal(err)
		}
		eventually(t, says, func() (bool, error) {
			_, err := p.PowerState(t.Context(), m)
			if err != nil && (providers.ClassOf(err) != class || !strings.Contains(err.Error(), says)) {
				t.Fatalf("got %v, want class %s with Ironic's text", err, class)
			}
			return err != nil, err
		})
		if state, err := p.PowerState(t.Context(), m); err != nil || state != providers.PowerOn {
			t.Errorf("first read of the next attempt: got %q, %v, want no error, so that it can press again", state, err)
		}
		s.Set(func(f *ironictest.Faults) { f.FailPower = "" })
		if err := p.SetPower(inTime(t), providers.Op{}, m, providers.ActionHardOff); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the power to be off", func() (bool, error) {
			state, err := p.PowerState(t.Context(), m)
			return state == providers.PowerOff, err
		})
	}
}

// An operating system that does not power off in time is not an error: the executor then presses
// the button.
func TestIgnoredSoftOff(t *testing.T) {
	t.Parallel()
	s, p, m := newLab(t, ironictest.Node{})
	s.Set(func(f *ironictest.Faults) { f.FailPower = "Timed out waiting for soft power off" })
	if err := p.SetPower(inTime(t), providers.Op{}, m, providers.ActionSoftOff); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the power to be on", func() (bool, error) {
		state, err := p.PowerState(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return state == providers.PowerOn, nil
	})
}

func TestBoot(t *testing.T) {
	t.Parallel()
	s, p, m := newLab(t, ironictest.Node{BootMode: "bios"})
	set := func(d providers.BootDevice) error { return p.SetBootDevice(inTime(t), providers.Op{}, m, d) }
	if err := set(providers.BootDevice{Mode: "VIRTUAL_MEDIA"}); err != nil {
		t.Fatal(err)
	}
	if got, err := p.BootDevice(t.Context(), m); err != nil || got != (providers.BootDevice{Mode: "VIRTUAL_MEDIA"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := set(providers.BootDevice{Mode: "PXE", UEFI: true}); providers.ClassOf(err) != providers.Unsupported {
		t.Errorf("UEFI on a node with BIOS: got %v, want class unsupported", err)
	}
	s.Set(func(f *ironictest.Faults) { f.IgnoreBoot = true })
	if err := set(providers.BootDevice{Mode: "PXE"}); providers.ClassOf(err) != providers.Transient ||
		!strings.Contains(err.Error(), "reads back as VIRTUAL_MEDIA") {
		t.Errorf("ignored device: got %v, want a different value read back", err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		node ironictest.Node
		want providers.Facts // without the boot id
	}{
		"on": {ironictest.Node{}, providers.Facts{Reachable: true, ReachableReason: "PoweredOn", Power: providers.PowerOn,
			BMCReachable: true, BMCReason: "IronicOK"}},
		"off": {ironictest.Node{Power: "power off"}, providers.Facts{ReachableReason: "PoweredOff", Power: providers.PowerOff,
			BMCReachable: true, BMCReason: "IronicOK"}},
		"maintenance": {ironictest.Node{Power: "power off", Maintenance: "fan"},
			providers.Facts{ReachableReason: "PoweredOff", Power: providers.PowerOff,
				BMCReachable: true, BMCReason: "Maintenance"}},
		"no BMC": {ironictest.Node{Power: "error", Maintenance: "x", Fault: "power failure"},
			providers.Facts{ReachableReason: "NotProbed", BMCReason: "PowerFailure"}},
	} {
		_, p, m := newLab(t, tt.node)
		got, err := p.Inspect(t.Context(), m)
		got.BootID = ""
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
	_, p, _ := newLab(t, ironictest.Node{})
	if got, err := p.Inspect(t.Context(), machine("gone", "")); err != nil || got.BMCReason != "Gone" {
		t.Errorf("missing node: got %+v, %v, want the reason Gone", got, err)
	}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	inspected := map[string]any{
		"cpu": map[string]any{"model_name": "Xeon", "count": 64,
			"frequency": ""}, "memory": map[string]any{"physical_mb": 2048},
		"disks": []any{map[string]any{"name": "/dev/nvme0n1", "size": 1 << 40, "serial": "S1", "vendor": "X",
			"model": "Y"}},
		"interfaces": []any{map[string]any{"name": "eno1", "mac_address": "AA:BB:CC:00:11:22", "has_carrier": true,
			"speed_mbps": 25000}},
		"system_vendor": map[string]any{"manufacturer": "HPE", "product_name": "DL380", "serial_number": "CZ1",
			"firmware": map[string]any{"version": "U30"}},
	}
	for name, tt := range map[string]struct {
		node   ironictest.Node
		newest int
		want   providers.Inventory
	}{
		"inspected": {ironictest.Node{Inventory: inspected, Traits: []string{"CUSTOM_GPU"}}, 82, providers.Inventory{
			Manufacturer: "HPE", Model: "DL380", Serial: "CZ1", BIOS: "U30", MemoryBytes: 2 << 30,
			Traits: []string{"CUSTOM_GPU"},
			CPUs:   []providers.CPU{{Model: "Xeon", Threads: 64}},
			Disks:  []providers.Disk{{Slot: "/dev/nvme0n1", Model: "X Y", Serial: "S1", Bytes: 1 << 40, Media: "SSD"}},
			NICs:   []providers.NIC{{Name: "eno1", MAC: "aa:bb:cc:00:11:22", Mbps: 25000, Link: providers.PartUp}},
		}},
		"not inspected": {ironictest.Node{}, 82,
			providers.Inventory{MemoryBytes: 1 << 30, CPUs: []providers.CPU{{Threads: 8}},
				Unread:  providers.PartKinds(),
				Missing: []string{"Ironic has not inspected the node: only the node's properties are shown"}}},
		"an old Ironic": {ironictest.Node{Inventory: inspected}, 80,
			providers.Inventory{MemoryBytes: 1 << 30, CPUs: []providers.CPU{{Threads: 8}},
				Unread:  providers.PartKinds(),
				Missing: []string{"Ironic is older than 2023.1 and keeps no inventory: only the node's properties are shown"}}},
	} {
		s, p, m := newLab(t, tt.node)
		s.Versions(1, tt.newest)
		got, err := p.Inventory(t.Context(), m)
		if err != nil || got.UUID == "" {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		got.UUID = ""
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
