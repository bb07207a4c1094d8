package fsm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
)

// TestKindsOfSteps holds the properties of step kinds that Apply reads. Peers of different builds
// must agree on them, so a change for an existing kind needs a feature level.
func TestKindsOfSteps(t *testing.T) {
	const golden = "testdata/kinds.golden"
	var got strings.Builder
	for _, name := range stepkind.Names() {
		k := stepkind.Named(name)
		fmt.Fprintf(&got, "%s params=%s installs=%t unbraked=%t ramped=%t keeps_phase=%t concurrent=%t\n", name,
			strings.Join(k.GetParams(), ","), k.GetInstalls(), k.GetUnbraked(), k.GetRamped(), k.GetKeepsPhase(),
			k.GetConcurrent())
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("kinds (-want +got; UPDATE_GOLDEN=1 writes %s):\n%s", golden, diff)
	}
}
