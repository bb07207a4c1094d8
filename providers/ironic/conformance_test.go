package ironic_test

import (
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][2]int{"Newest": {1, 109}, "Debian": {1, 82}, "Least": {1, 56}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup {
				s := ironictest.New(t, ironictest.Config{Step: 10 * time.Millisecond, Least: versions[0], Newest: versions[1]})
				s.Add(ironictest.Node{Name: "rack7-node3", BootMode: "uefi", Inventory: map[string]any{}})
				s.Add(ironictest.Node{Name: "silent", Silent: true})
				p := newProvider(t, ironic.Config{Endpoint: s.URL}, ironic.Deps{})
				return providertest.Setup{
					Provider: p, Machine: machine("m-1", "ironic://rack7-node3"), Silent: machine("silent",
						""), Missing: machine("missing", "ironic://nobody"),
					Wait: 20 * time.Second, Poll: 5 * time.Millisecond, Image: "default",
				}
			})
		})
	}
}

// Machines that are no nodes, or whose endpoint is another path, cause no request.
func TestNodeOfMachine(t *testing.T) {
	t.Parallel()
	_, p, _ := newLab(t, ironictest.Node{})
	for endpoint, want := range map[string]providers.Class{
		"": "", "ironic://n1": "", "ironic://other": providers.Gone,
		"https://10.0.0.1": providers.Unsupported, "ironic://": providers.Unsupported, "ironic://..": providers.Unsupported,
		"ironic://n1/states": providers.Unsupported, "ironic://n1?x=y": providers.Unsupported,
		"ironic://%2e%2e": providers.Unsupported,
	} {
		_, err := p.PowerState(t.Context(), machine("n1", endpoint))
		if err == nil != (want == "") || err != nil && providers.ClassOf(err) != want {
			t.Errorf("bmc_endpoint %q: got %v, want class %q", endpoint, err, want)
		}
	}
}
