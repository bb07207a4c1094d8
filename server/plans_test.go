package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// samplePlan returns a complete plan.
const samplePlan = `{
  "plan_id": "plan-repave-ubuntu-2204-v1",
  "display_name": "Repave Ubuntu 22.04 + Join Cluster",
  "steps": [
    {"name": "set-netboot", "timeout_seconds": 60, "max_retries": 2, "netboot": {"mode": "PXE"}},
    {"name": "repave-os", "timeout_seconds": 1800, "max_retries": 1, "repave": {"image": "ubuntu-22.04"}},
    {"name": "reboot", "timeout_seconds": 300, "max_retries": 2, "reboot": {"mode": "bmc"}},
    {"name": "join-cluster", "timeout_seconds": 600, "max_retries": 1, "join": {"cluster_ref": "cluster-a"}},
    {"name": "verify", "timeout_seconds": 300, "max_retries": 0, "verify": {"cluster_ref": "cluster-a"}}
  ]
}`

func TestCreatePlan(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	sample := &holdfastv1.Plan{}
	if err := protojson.Unmarshal([]byte(samplePlan), sample); err != nil {
		t.Fatal(err)
	}
	dry, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: sample, ValidateOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: sample.GetPlanId()})
	wantError(t, err, codes.NotFound, "PLAN_NOT_FOUND") // validate_only has stored nothing

	claims := proto.CloneOf(sample)
	claims.BuiltIn, claims.Referenced = true, true // output only
	made, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: claims})
	if err != nil {
		t.Fatal(err)
	}
	if made.GetBuiltIn() || made.GetReferenced() || made.GetCreatedAt() == nil || !fsm.SamePlan(made, dry) {
		t.Errorf("made %v, validated %v", made, dry)
	}
	got, err := c.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: sample.GetPlanId()})
	if diff := cmp.Diff(made, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("GetPlan: %v (-want +got):\n%s", err, diff)
	}
}

// TestCreatePlanConflicts checks that validate_only returns the answer of the real call.
func TestCreatePlanConflicts(t *testing.T) {
	other := func(id string) *holdfastv1.Plan {
		p := nodetest.OnePlan(id)
		p.DisplayName = "another one"
		return p
	}
	builtIn := fsm.DefaultPlans()[0]
	for _, tt := range []struct {
		name    string
		plan    *holdfastv1.Plan
		replace bool
		code    codes.Code
		reason  string
	}{
		{"the same again", nodetest.OnePlan("free"), false, codes.OK, ""},
		{"the same again, of a run", nodetest.OnePlan("one"), true, codes.OK, ""},
		{"the same again, built in", builtIn, false, codes.OK, ""},
		{"other content", other("free"), false, codes.AlreadyExists, "PLAN_EXISTS"},
		{"replaced", other("free"), true, codes.OK, ""},
		{"of a run", other("one"), true, codes.FailedPrecondition, "PLAN_REFERENCED"},
		{"built in", other(builtIn.GetPlanId()), true, codes.FailedPrecondition, "PLAN_BUILT_IN"},
		{"twice the same name", &holdfastv1.Plan{PlanId: "p", Steps: append(nodetest.OnePlan("p").GetSteps(),
			nodetest.OnePlan("p").GetSteps()...)}, false, codes.InvalidArgument, "INVALID_FIELD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			ctx := testCtx(t)
			n.Machine(t, "m-1")
			n.Start(t, "m-1", "run-1", "")
			if _, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: nodetest.OnePlan("free")}); err != nil {
				t.Fatal(err)
			}
			dry, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: tt.plan, Replace: tt.replace, ValidateOnly: true})
			wantError(t, err, tt.code, tt.reason)
			made, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: tt.plan, Replace: tt.replace})
			wantError(t, err, tt.code, tt.reason)
			if err == nil && (!fsm.SamePlan(made, tt.plan) || !fsm.SamePlan(dry, made)) {
				t.Errorf("asked for %v, validated %v, made %v", tt.plan, dry, made)
			}
		})
	}
}

// A disk rule that the installer would refuse is refused with the plan. A rule that
// depends on the machine is not.
func TestPlansHaveRulesThatCanBeRead(t *testing.T) {
	choose := func(rule string, h *holdfastv1.HardwareInventory) (string, bool, error) {
		if h != nil {
			t.Errorf("the rule %q is held against the inventory of a machine", rule)
		}
		return "", rule == "by=first", errors.New("by is " + rule)
	}
	_, c := serve(t, nodetest.New(), Config{ChooseDisk: choose})
	for rule, code := range map[string]codes.Code{"": codes.OK, "by=smallest": codes.OK,
		"by=first": codes.InvalidArgument} {
		for _, dry := range []bool{true, false} {
			plan := &holdfastv1.Plan{PlanId: "p",
				Steps: []*holdfastv1.Step{{Name: "os",
					Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian", Disk: rule}}}}}
			_, err := c.CreatePlan(testCtx(t), &holdfastv1.CreatePlanRequest{Plan: plan, Replace: true, ValidateOnly: dry})
			if status.Code(err) != code || err != nil && !strings.Contains(fmt.Sprint(status.Convert(err).Details()),
				"plan.steps[0].repave.disk") {
				t.Errorf("%q, validate_only %v: got %v, %v, want %v", rule, dry, err, status.Convert(err).Details(), code)
			}
		}
	}
}

func TestDeletePlan(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	if _, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: nodetest.OnePlan("p")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: "p"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: "p"})
	wantError(t, err, codes.NotFound, "PLAN_NOT_FOUND")
}
