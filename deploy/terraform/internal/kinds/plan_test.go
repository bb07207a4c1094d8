package kinds

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const checkDocument = "plan_id: plan/check\nsteps:\n- name: look\n  inspect: {}\n"

func TestSamePlan(t *testing.T) {
	for _, tt := range []struct {
		name, now string
		want      bool
	}{
		{"comments and order", "# weekly\nsteps: [{inspect: {}, name: look}]\nplan_id: \"plan/check\"\n", true},
		{"JSON", `{"plan_id": "plan/check", "steps": [{"name": "look", "inspect": {}}]}`, true},
		{"fields of the server", checkDocument + "referenced: true\n", true},
		{"another step", strings.Replace(checkDocument, "look", "see", 1), false},
		{"another kind", strings.Replace(checkDocument, "inspect", "inventory", 1), false},
		{"not a plan", "plan_id: [", false},
	} {
		if got := samePlan(checkDocument, tt.now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCheckPlan(t *testing.T) {
	for _, tt := range []struct {
		name, document, field, text string
	}{
		{"right", checkDocument, "", ""},
		{"unknown key", strings.Replace(checkDocument, "inspect", "inspct", 1), "document", `document:4: unknown key "inspct"`},
		{"two plans", checkDocument + "---\n" + checkDocument, "document", "more than one plan"},
		{"nothing", "", "document", "there is no document in it"},
		{"no steps", "plan_id: p\n", "plan.steps", ""},
	} {
		bad := checkPlan(&plan{Document: types.StringValue(tt.document)})
		if tt.field == "" {
			if len(bad) > 0 {
				t.Errorf("%s: got %v, want none", tt.name, bad)
			}
			continue
		}
		if len(bad) != 1 || bad[0].Field != tt.field || !strings.Contains(bad[0].Text, tt.text) {
			t.Errorf("%s: got %v, want %q at %s", tt.name, bad, tt.text, tt.field)
		}
	}
}

// TestDriftOfAPlan checks that a document stays while it describes the plan of the server.
func TestDriftOfAPlan(t *testing.T) {
	p := plan{Document: types.StringValue("# mine\n" + checkDocument)}
	live, err := parsePlan(checkDocument)
	if err != nil {
		t.Fatal(err)
	}
	live.Referenced = true
	if err := p.fill(live); err != nil || !strings.HasPrefix(p.Document.ValueString(), "# mine") {
		t.Errorf("same plan: got error %v, document %q", err, p.Document.ValueString())
	}
	live.Steps[0].Name = "see"
	if err := p.fill(live); err != nil {
		t.Fatal(err)
	}
	got, err := parsePlan(p.Document.ValueString())
	want := &holdfastv1.Plan{PlanId: "plan/check", Steps: live.GetSteps()}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("another plan: got error %v, document (-want +got):\n%s", err, diff)
	}
}
