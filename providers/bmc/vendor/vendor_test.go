package vendor_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers/bmc/vendor"
)

// TestNew checks that every driver is created without a request, and has the methods of its
// capabilities.
func TestNew(t *testing.T) {
	can := map[string]struct{ boot, inventory bool }{
		vendor.RPC: {boot: true}, vendor.AMT: {boot: true}, vendor.Ipmitool: {boot: true},
		vendor.ASRockRack: {inventory: true}, vendor.Dell: {inventory: true},
		vendor.OpenBMC: {inventory: true}, vendor.Supermicro: {inventory: true},
	}
	for _, name := range vendor.Names() {
		d, err := vendor.New(name, vendor.Config{Host: "192.0.2.1", User: "u", Password: "p",
			HTTP: &http.Client{Transport: &http.Transport{}}, RPCURL: "https://192.0.2.2/rpc", IpmitoolPath: "/bin/true",
			CipherSuite: "17"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, boot := d.(vendor.BootSetter)
		_, inventory := d.(vendor.Inventory)
		if want := can[name]; boot != want.boot || inventory != want.inventory {
			t.Errorf("%s: boot %t, inventory %t, want %+v", name, boot, inventory, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, want := range map[string]string{"idrac": "is not one of", vendor.RPC: "no rpc_url"} {
		if _, err := vendor.New(name, vendor.Config{Host: "192.0.2.1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, want)
		}
	}
	if _, err := vendor.New(vendor.AMT, vendor.Config{Host: "192.0.2.1", Port: "amt"}); err == nil {
		t.Error("AMT at port amt: got no error")
	}
}
