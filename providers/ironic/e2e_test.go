package ironic_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// withoutBoot is a provider without the operations that fake-hardware ignores: it always boots from
// PXE, once.
type withoutBoot struct {
	providers.Inspector
	providers.PowerController
	providers.Imager
	providers.InventoryReader
	providers.Settler
}

func (withoutBoot) Kind() string { return "ironic" }

// TestDebian runs against Debian's ironic-api and ironic-conductor.
func TestDebian(t *testing.T) {
	d := bootDebian(t)
	leader := func(t *testing.T) *ironic.Provider {
		// Its fake hardware has one kind of cleaning, the reset of the BIOS.
		return newProvider(t, ironic.Config{Endpoint: d.URL(),
			CleanSteps: []ironic.CleanStep{{Interface: "bios", Step: "factory_reset"}}}, ironic.Deps{})
	}
	t.Run("Conformance", func(t *testing.T) {
		node := d.node(t, "manage", "provide")
		providertest.Run(t, func(t *testing.T) providertest.Setup {
			p := leader(t)
			return providertest.Setup{
				Provider: withoutBoot{p, p, p, p, p}, Machine: machine("m-1", "ironic://"+node), Missing: machine("missing", ""),
				Wait: time.Minute, Poll: 100 * time.Millisecond, Image: "default",
			}
		})
	})
	t.Run("Boot", func(t *testing.T) {
		p, m := leader(t), machine(d.node(t, "manage"), "")
		pxe := providers.BootDevice{Mode: "PXE", UEFI: true}
		if err := p.SetBootDevice(inTime(t), providers.Op{}, m, pxe); err != nil {
			t.Error(err)
		}
		if got, err := p.BootDevice(t.Context(), m); err != nil || got != pxe {
			t.Errorf("got %+v, %v, want %+v", got, err, pxe)
		}
		if err := p.SetBootDevice(inTime(t), providers.Op{}, m,
			providers.BootDevice{Mode: "DISK"}); providers.ClassOf(err) != providers.Unsupported ||
			!strings.Contains(err.Error(), "Invalid boot device disk specified") {
			t.Errorf("missing device: got %v, want class unsupported with Ironic's text", err)
		}
		pxe.Persistent = true
		if err := p.SetBootDevice(inTime(t), providers.Op{}, m, pxe); providers.ClassOf(err) != providers.Transient ||
			!strings.Contains(err.Error(), "reads back") {
			t.Errorf("ignored device: got %v, want a different value read back", err)
		}
	})
	t.Run("Inventory", func(t *testing.T) {
		got, err := leader(t).Inventory(t.Context(), machine(d.node(t), ""))
		if err != nil || got.MemoryBytes != 2<<30 || len(got.Traits) != 1 || got.Traits[0] != "CUSTOM_GPU" {
			t.Errorf("got %+v, %v, want 2 GiB and a trait", got, err)
		}
	})
	t.Run("Lock", func(t *testing.T) {
		// Power changes take a second, and Ironic's API waits before it reports a locked node.
		name := d.node(t, "manage")
		p, m := leader(t), machine(name, "")
		for _, a := range []providers.PowerAction{providers.ActionHardOff, providers.ActionOn, providers.ActionHardOff} {
			if err := p.SetPower(providers.WithNotAfter(t.Context(), time.Now().Add(time.Minute)), providers.Op{}, m,
				a); err != nil {
				t.Errorf("%s on a possibly locked node: got %v, want it to wait", a, err)
			}
		}
		eventually2(t, time.Minute, "off", func() (bool, error) {
			s, err := p.PowerState(t.Context(), m)
			return s == providers.PowerOff, err
		})
	})
	t.Run("Maintenance", func(t *testing.T) {
		name := d.node(t, "manage", "provide")
		if err := d.do(t, http.MethodPut, "/v1/nodes/"+name+"/maintenance", map[string]any{"reason": "broken fan"},
			nil); err != nil {
			t.Fatal(err)
		}
		err := leader(t).StartInstall(inTime(t), providers.Op{RunID: "r", Step: "s", Attempt: 1}, machine(name, ""),
			providers.InstallSpec{Image: "default"})
		if providers.ClassOf(err) != providers.Unsupported || !strings.Contains(err.Error(), "in maintenance (broken fan)") {
			t.Errorf("got %v, want class unsupported and the reason", err)
		}
	})
	t.Run("Install", func(t *testing.T) { installs(t, d, leader) })
}

// installs brings nodes from several states to an installed or wiped one, with a new provider after
// each effect, like a new leader.
func installs(t *testing.T, d *debian, leader func(t *testing.T) *ironic.Provider) {
	for name, tt := range map[string]struct {
		from []string
		spec providers.InstallSpec
		want string // expected actions of the conductor
		end  string
	}{
		"FromEnroll": {[]string{}, providers.InstallSpec{Image: "default"}, "active", "active"},
		"FromAvailable": {[]string{"manage", "provide"}, providers.InstallSpec{Image: "default",
			CloudInit: "#cloud-config\n{}\n"}, "active", "active"},
		"Again": {[]string{"manage", "provide", "active"}, providers.InstallSpec{Image: "default"}, "active",
			"active"},
		"AgainAndWiped": {[]string{"manage", "provide", "active"}, providers.InstallSpec{Image: "default", Wipe: true},
			"active", "active"},
		"OnlyWiped": {[]string{"manage", "provide", "active"}, providers.InstallSpec{Wipe: true}, "manageable", "manageable"},
	} {
		t.Run(name, func(t *testing.T) {
			node := d.node(t, tt.from...)
			before := d.history(t, node)
			m, op := machine("m-1", "ironic://"+node), providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}
			p := leader(t)
			var st providers.InstallStatus
			var did []string
			began := time.Now()
			eventually2(t, 2*time.Minute, "the end of the install", func() (bool, error) {
				var err error
				if st, err = p.InstallStatus(t.Context(), m, op.Token()); err != nil {
					return false, err
				}
				if st.State == providers.WorkNone || st.Due != "" && st.State == providers.WorkRunning {
					err = p.StartInstall(inTime(t), op, m, tt.spec)
					if err != nil && providers.ClassOf(err) != providers.Transient && providers.ClassOf(err) != providers.Late {
						t.Fatalf("%s: %v", st.Due, err)
					}
					if err == nil {
						did = append(did, st.Due)
					}
					p = leader(t)
				}
				return st.State == providers.WorkDone || st.State == providers.WorkFailed, err
			})
			n := d.show(t, node)
			if st.State != providers.WorkDone || n.State != tt.end || n.Error != "" {
				t.Errorf("got %+v and node %+v, want it done and %s", st, n, tt.end)
			}
			image := map[string]any{"image_source": "http://192.0.2.1/default.qcow2", "image_os_hash_algo": "sha256",
				"image_os_hash_value": "abc", "image_disk_format": "qcow2"}
			for k, v := range image {
				if tt.spec.Image != "" && n.InstanceInfo[k] != v {
					t.Errorf("instance_info %s: got %v, want %v", k, n.InstanceInfo[k], v)
				}
			}
			if diff := cmp.Diff(1, strings.Count(strings.TrimPrefix(d.history(t, node), before),
				`deploying`)); tt.spec.Image != "" && diff != "" {
				t.Errorf("deployments (-want +got):\n%s\n%s", diff, d.history(t, node))
			}
			t.Logf("%s in %s: %q; Ironic: %s", name, time.Since(began).Round(100*time.Millisecond), did,
				strings.TrimPrefix(d.history(t, node), before))
		})
	}
}
