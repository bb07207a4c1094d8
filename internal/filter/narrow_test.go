package filter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func always(path, value string) bool {
	return strings.HasPrefix(path, "labels.") ||
		slices.Contains([]string{"machine_id", "spec.rack", "spec.serial", "status.phase"}, path) ||
		strings.HasPrefix(path, "status.conditions.") && !strings.HasSuffix(path, ".type") &&
			(value == "true" || value == "false")
}

// has reports whether a machine meets the terms.
func has(m *holdfastv1.Machine, t filter.Terms) bool {
	if t.Path == "" {
		lacks := func(t filter.Terms) bool { return !has(m, t) }
		return !slices.ContainsFunc(t.All, lacks) && (t.All != nil || !allOf(t.Any, lacks))
	}
	if key, ok := strings.CutPrefix(t.Path, "labels."); ok {
		v, ok := m.GetLabels()[key]
		return ok && v == t.Value
	}
	if kind, ok := strings.CutPrefix(t.Path, "status.conditions."); ok {
		return slices.ContainsFunc(m.GetStatus().GetConditions(), func(c *holdfastv1.Condition) bool {
			return c.GetType() == kind && fmt.Sprint(c.GetStatus()) == t.Value
		})
	}
	return map[string]string{"machine_id": m.GetMachineId(), "spec.rack": m.GetSpec().GetRack(),
		"spec.serial":  m.GetSpec().GetSerial(),
		"status.phase": m.GetStatus().GetPhase().String()}[t.Path] == t.Value
}

func allOf(terms []filter.Terms, is func(filter.Terms) bool) bool {
	return !slices.ContainsFunc(terms, func(t filter.Terms) bool { return !is(t) })
}

func shown(t filter.Terms) string {
	var parts []string
	for _, p := range slices.Concat(t.All, t.Any) {
		parts = append(parts, shown(p))
	}
	switch {
	case t.All != nil:
		return "(" + strings.Join(parts, " & ") + ")"
	case t.Any != nil:
		return "(" + strings.Join(parts, " | ") + ")"
	}
	return t.Path + "=" + t.Value
}

func TestTermsAndTexts(t *testing.T) {
	for _, tt := range []struct {
		filter string
		terms  string // empty: none
		texts  []string
	}{
		{"", "", nil},
		{"rack=r7", "spec.rack=r7", []string{"r7"}},
		{"rack:r7", "spec.rack=r7", []string{"r7"}},
		{"rack!=r7", "", nil},
		{"rack>r7", "", nil},
		{"NOT rack=r7", "", nil},
		{"rack=r*", "", []string{"r"}},
		{"spec.serial=*ab*cde*", "", []string{"cde"}},
		{"labels.env=prod", "labels.env=prod", []string{"prod"}},
		{`labels."a.b"=""`, "labels.a.b=", nil},
		{"labels:env", "", nil},
		{"labels.env:*", "", nil},
		{"phase=ready", "status.phase=READY", nil},
		{"phase!=READY", "", nil},
		{"spec.pool=a", "", []string{"a"}}, // not indexed here
		{"conditions.degraded=true", "status.conditions.Degraded=true", nil},
		{"conditions.Reachable=unknown", "", nil},
		{"conditions.Reachable!=true", "", nil},
		{"status.conditions.type:Reachable", "", []string{"Reachable"}},
		{"mac_addresses:AA-BB-CC-DD-EE-01", "", []string{"aa:bb:cc:dd:ee:01"}},
		{"rack=r7 AND phase=READY", "(spec.rack=r7 & status.phase=READY)", []string{"r7"}},
		{"rack=r7 AND revision>3", "spec.rack=r7", []string{"r7"}},
		{"rack=r7 OR rack=r8", "(spec.rack=r7 | spec.rack=r8)", nil},
		{"rack=r7 OR revision>3", "", nil},
		{"(rack=r7 OR rack=r8) AND NOT phase=READY labels.env=x", "((spec.rack=r7 | spec.rack=r8) & labels.env=x)",
			[]string{"x"}},
	} {
		t.Run(tt.filter, func(t *testing.T) {
			f, err := filter.Compile(machines(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if terms, ok := f.Terms(always); ok {
				got = shown(terms)
			}
			if got != tt.terms {
				t.Errorf("terms: got %s, want %s", got, tt.terms)
			}
			if diff := cmp.Diff(tt.texts, f.Texts(func(string) bool { return true })); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnly(t *testing.T) {
	spec := func(path string) bool { return strings.HasPrefix(path, "spec.") }
	for text, want := range map[string]bool{"": true, "rack=r7": true, "rack=r7 OR NOT spec.serial=x": true,
		"rack=r7 phase=READY": false, "NOT phase=READY": false} {
		f, err := filter.Compile(machines(), text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Only(spec); got != want {
			t.Errorf("Only(%q): got %v, want %v", text, got, want)
		}
	}
}
