package display

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestDiffTexts: for any two texts, the lines not added are the first text, and the lines
// not removed are the second one.
func TestDiffTexts(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "- a"}), 1, 20).Draw(t, "lines"),
			"\n")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		lines, err := DiffTexts(a, b)
		if err != nil {
			t.Fatal(err)
		}
		var was, now []string
		both := 0
		for _, l := range lines {
			if l.Mark != "+" {
				was = append(was, l.Text)
			}
			if l.Mark != "−" {
				now = append(now, l.Text)
			}
			if l.Mark == " " {
				both++
			}
		}
		if got, want := strings.Join(was, "\n"), strings.TrimSuffix(a, "\n"); got != want {
			t.Fatalf("first text: got %q, want %q", got, want)
		}
		if got, want := strings.Join(now, "\n"), strings.TrimSuffix(b, "\n"); got != want {
			t.Fatalf("second text: got %q, want %q", got, want)
		}
		if a == b && both != len(lines) {
			t.Fatalf("%q: got a difference from itself", a)
		}
	})
	if _, err := DiffTexts(strings.Repeat("x\n", mostLines+1), "y"); err == nil {
		t.Error("long texts: got a comparison")
	}
}

// TestPlanText: the text of a plan can be checked again, and contains no fields that the
// cluster added.
func TestPlanText(t *testing.T) {
	for _, p := range fsm.DefaultPlans() {
		p = proto.CloneOf(p)
		p.BuiltIn, p.Referenced, p.Brake = true, true, &holdfastv1.PlanBrake{Failure: "x"}
		p.Ramps, p.MaxActive = []*holdfastv1.PlanRamp{{Limit: 6}}, 9
		got, err := ReadPlan(PlanText(p))
		p.BuiltIn, p.Referenced, p.Brake, p.Ramps, p.MaxActive = false, false, nil, nil, 0
		if err != nil || !proto.Equal(got, p) {
			t.Errorf("%s: got %v (%v)", p.GetPlanId(), got, err)
		}
	}
}

// FuzzReadPlan: any text is a plan or an error.
func FuzzReadPlan(f *testing.F) {
	for _, s := range []string{"plan_id: p\nsteps: [{name: a, reboot: {}}]", "{}", "plan_id: p\nplan_id: q", "- a",
		"steps: [{name: a, nonsense: {}}]", "a: &x [*x]", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ReadPlan(s)
		if (p == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", s, p, err)
		}
	})
}
