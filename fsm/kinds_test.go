package fsm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestKindsOfSteps holds the properties of step kinds that Apply reads. Peers of different builds
// must agree on them, so a change for an existing kind needs a feature level.
func TestKindsOfSteps(t *testing.T) {
	const golden = "testdata/kinds.golden"
	var got strings.Builder
	for _, name := range stepkind.Names() {
		k := stepkind.Named(name)
		var params []string
		for _, p := range k.GetParams() {
			d := p.GetDeclares()
			params = append(params, strings.TrimSpace(fmt.Sprintf("%s:%s %s", d.GetName(), d.GetType(), bounds(d))))
		}
		fmt.Fprintf(&got, "%s params=%s installs=%t unbraked=%t ramped=%t keeps_phase=%t concurrent=%t\n", name,
			strings.Join(params, ","), k.GetInstalls(), k.GetUnbraked(), k.GetRamped(), k.GetKeepsPhase(),
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

// bounds returns the values that a declaration allows.
func bounds(p *holdfastv1.Param) string {
	text := strings.Join(p.GetChoices(), "|")
	if p.Min != nil || p.Max != nil {
		text += fmt.Sprintf("%d..%d", p.GetMin(), p.GetMax())
	}
	if p.GetRequired() {
		text += "!"
	}
	return text
}
