package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestDefaultPlans(t *testing.T) {
	want := map[string][]string{
		"plan/repave-join": {"set-netboot:netboot", "reboot-to-netboot:reboot", "repave-image:repave", "join-cluster:join",
			"verify-in-cluster:verify"},
		"plan/rma":      {"drain-check:ssh", "graceful-shutdown:ssh", "mark-rma:rma"},
		"plan/rma-wipe": {"drain-check:ssh", "graceful-shutdown:ssh", "mark-rma:rma"},
		"plan/reboot":   {"reboot:reboot"},
		"plan/upgrade": {"cordon-node:ssh", "drain-node:ssh", "upgrade-kubelet:ssh", "restart-kubelet:ssh",
			"uncordon-node:ssh", "verify-upgrade:verify"},
		"plan/net-reconfig": {"apply-network-config:net", "verify-connectivity:ssh"},

		"plan/inspect":            {"inspect:inspect"},
		"plan/identify-on":        {"identify-on:identify"},
		"plan/drain":              {"cordon-node:ssh", "drain-node:ssh"},
		"plan/uncordon":           {"uncordon-node:ssh"},
		"plan/identify-off":       {"identify-off:identify"},
		"plan/sel":                {"sel:event_log"},
		"plan/sel-clear":          {"sel-clear:clear_event_log"},
		"plan/bmc-reset":          {"bmc-reset:reset_bmc"},
		"plan/media-insert":       {"media-insert:media"},
		"plan/media-eject":        {"media-eject:media"},
		"plan/inventory":          {"inventory:inventory"},
		"plan/console":            {"console:console"},
		"plan/power-on":           {"power-on:power"},
		"plan/power-off":          {"power-off:power"},
		"plan/power-cycle":        {"power-cycle:power"},
		"plan/boot-pxe":           {"boot-pxe:netboot"},
		"plan/boot-http":          {"boot-http:netboot"},
		"plan/boot-disk":          {"boot-disk:netboot"},
		"plan/boot-virtual-media": {"boot-virtual-media:netboot"},
	}
	got := map[string][]string{}
	for _, p := range fsm.DefaultPlans() {
		before := proto.CloneOf(p)
		if bad := fsm.ValidatePlan(p); len(bad) > 0 {
			t.Errorf("%s is not valid: %v", p.GetPlanId(), bad)
		}
		same(t, p.GetPlanId()+" after validation", before, p)
		for _, s := range p.GetSteps() {
			got[p.GetPlanId()] = append(got[p.GetPlanId()], s.GetName()+":"+fsm.KindOf(s))
			if s.GetTimeoutSeconds() == 0 || s.MaxRetries == nil {
				t.Errorf("%s: step %s leaves its timeout or retries open", p.GetPlanId(), s.GetName())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("built-in plans (-want +got):\n%s", diff)
	}
	for _, kind := range []string{"REPAVE", "RMA", "REBOOT", "UPGRADE", "NET_RECONFIG"} {
		if id := fsm.DefaultPlanID(kind); want[id] == nil {
			t.Errorf("default plan of %s: got %q, want a built-in one", kind, id)
		}
	}
	if id := fsm.DefaultPlanID("REIMAGE"); id != "" {
		t.Errorf("default plan of REIMAGE: got %q, want none", id)
	}
}

// TestSamplePlan uses the sample plan of the bare-metal API.
func TestSamplePlan(t *testing.T) {
	const sample = `{
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
	var pl holdfastv1.Plan
	if err := protojson.Unmarshal([]byte(sample), &pl); err != nil {
		t.Fatal(err)
	}
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.CreatePlan{Plan: &pl})
	register(t, p, "m-123", ready)
	r := start(t, p, "m-123", "req-456", "REPAVE", "plan-repave-ubuntu-2204-v1")
	var got []string
	for _, s := range r.GetSteps() {
		got = append(got, fmt.Sprintf("%s %s %d %d", s.GetName(), s.GetKind(), s.GetTimeoutSeconds(), s.GetMaxRetries()))
	}
	want := []string{"set-netboot netboot 60 2", "repave-os repave 1800 1", "reboot reboot 300 2",
		"join-cluster join 600 1", "verify verify 300 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestValidatePlan(t *testing.T) {
	big := strings.Repeat("x", 128<<10+1)
	many := make([]string, 101)
	step := func(change func(*holdfastv1.Step)) func(*holdfastv1.Plan) {
		return func(p *holdfastv1.Plan) { change(p.Steps[0]) }
	}
	kind := func(s *holdfastv1.Step) func(*holdfastv1.Plan) {
		return func(p *holdfastv1.Plan) { p.Steps[0].Kind = s.Kind }
	}
	ssh := func(c *holdfastv1.SshCommand) func(*holdfastv1.Plan) {
		return kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Ssh{Ssh: c}})
	}
	tests := []struct {
		name   string
		change func(*holdfastv1.Plan)
		want   []string // the invalid fields
	}{
		{"valid", func(*holdfastv1.Plan) {}, nil},
		{"no id", func(p *holdfastv1.Plan) { p.PlanId = "" }, []string{"plan.plan_id"}},
		{"id with a blank", func(p *holdfastv1.Plan) { p.PlanId = "my plan" }, []string{"plan.plan_id"}},
		{"id of 128", func(p *holdfastv1.Plan) { p.PlanId = strings.Repeat("p", 128) }, nil},
		{"id of 129", func(p *holdfastv1.Plan) { p.PlanId = strings.Repeat("p", 129) }, []string{"plan.plan_id"}},
		{"no steps", func(p *holdfastv1.Plan) { p.Steps = nil }, []string{"plan.steps"}},
		{"a shutdown of minus one second",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{ShutdownSeconds: -1}}}),
			[]string{"plan.steps[0].rma.shutdown_seconds"}},
		{"a shutdown of two days",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "off",
				ShutdownSeconds: 2 * 24 * 3600}}}), []string{"plan.steps[0].power.shutdown_seconds"}},
		{"an address with a user",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Net{Net: &holdfastv1.NetReconfig{NewSshEndpoint: "root@h"}}}),
			[]string{"plan.steps[0].net.new_ssh_endpoint"}},
		{"101 steps", func(p *holdfastv1.Plan) {
			p.Steps = nil
			for i := range many {
				s := fsmtest.Step("ssh")
				s.Name = fmt.Sprintf("s%d", i)
				p.Steps = append(p.Steps, s)
			}
		}, []string{"plan.steps"}},
		{"no name", step(func(s *holdfastv1.Step) { s.Name = "" }), []string{"plan.steps[0].name"}},
		{"name with a slash", step(func(s *holdfastv1.Step) { s.Name = "a/b" }), []string{"plan.steps[0].name"}},
		{"name twice", func(p *holdfastv1.Plan) { p.Steps = append(p.Steps, p.GetSteps()...) },
			[]string{"plan.steps[2].name", "plan.steps[3].name"}},
		{"names have a case", func(p *holdfastv1.Plan) { p.Steps[1].Name = "SSH" }, nil},
		{"negative timeout", step(func(s *holdfastv1.Step) { s.TimeoutSeconds = -1 }),
			[]string{"plan.steps[0].timeout_seconds"}},
		{"a week", step(func(s *holdfastv1.Step) { s.TimeoutSeconds = 7 * 24 * 3600 }), nil},
		{"more than a week", step(func(s *holdfastv1.Step) { s.TimeoutSeconds = 7*24*3600 + 1 }),
			[]string{"plan.steps[0].timeout_seconds"}},
		{"negative retries", step(func(s *holdfastv1.Step) { s.MaxRetries = proto.Int32(-1) }),
			[]string{"plan.steps[0].max_retries"}},
		{"101 retries", step(func(s *holdfastv1.Step) { s.MaxRetries = proto.Int32(101) }),
			[]string{"plan.steps[0].max_retries"}},
		{"no kind", step(func(s *holdfastv1.Step) { s.Kind = nil }), []string{"plan.steps[0].kind"}},
		{"ssh with nothing", ssh(&holdfastv1.SshCommand{}), []string{"plan.steps[0].ssh"}},
		{"ssh with both", ssh(&holdfastv1.SshCommand{Command: "a", Script: "b"}), []string{"plan.steps[0].ssh"}},
		{"ssh with a big script", ssh(&holdfastv1.SshCommand{Script: big}), []string{"plan.steps[0].ssh.script"}},
		{"reboot mode", kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "hard"}}}),
			[]string{"plan.steps[0].reboot.mode"}},
		{"netboot mode",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "USB"}}}),
			[]string{"plan.steps[0].netboot.mode"}},
		{"join role", kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{Role: "master"}}}),
			[]string{"plan.steps[0].join.role"}},
		{"negative verify timeout",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{
				Timeout: durationpb.New(-time.Second)}}}),
			[]string{"plan.steps[0].verify.timeout"}},
		{"verify timeout that is none",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{
				Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}}}}),
			[]string{"plan.steps[0].verify.timeout"}},
		{"big cloud-init",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{CloudInit: big}}}),
			[]string{"plan.steps[0].repave.cloud_init"}},
		{"big network config",
			kind(&holdfastv1.Step{Kind: &holdfastv1.Step_Net{Net: &holdfastv1.NetReconfig{Config: big}}}),
			[]string{"plan.steps[0].net.config"}},
		{"all at once", func(p *holdfastv1.Plan) { p.PlanId, p.Steps[0].Name, p.Steps[1].Kind = "", "", nil },
			[]string{"plan.plan_id", "plan.steps[0].name", "plan.steps[1].kind"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := planOf("plan/x", "ssh", "rma")
			tt.change(p)
			var got []string
			for _, v := range fsm.ValidatePlan(proto.CloneOf(p)) {
				got = append(got, v.Field)
				if v.Description == "" {
					t.Errorf("%s: nothing is said about it", v.Field)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			peer := fsmtest.NewPeer()
			if tt.want == nil {
				do(t, peer, &internalv1.CreatePlan{Plan: p})
				return
			}
			if e := refused(t, peer, &internalv1.CreatePlan{Plan: p}, fsm.InvalidArgument,
				"INVALID_FIELD"); len(e.Fields) != len(tt.want) {
				t.Errorf("refusal: got %v, want %v", e.Fields, tt.want)
			}
		})
	}
	refused(t, fsmtest.NewPeer(), &internalv1.CreatePlan{}, fsm.InvalidArgument, "INVALID_FIELD")
}

func TestPlanWordsAreFolded(t *testing.T) {
	p := &holdfastv1.Plan{PlanId: "plan/x", Steps: []*holdfastv1.Step{
		{Name: "a", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "InBand"}}},
		{Name: "b", Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "virtual_media"}}},
		{Name: "c", Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{Role: "Control-Plane"}}},
		fsmtest.Step("reboot"), fsmtest.Step("netboot"), fsmtest.Step("join"),
	}}
	if bad := fsm.ValidatePlan(p); len(bad) > 0 {
		t.Fatal(bad)
	}
	s := p.GetSteps()
	got := []string{s[0].GetReboot().GetMode(), s[1].GetNetboot().GetMode(), s[2].GetJoin().GetRole(),
		s[3].GetReboot().GetMode(), s[4].GetNetboot().GetMode(), s[5].GetJoin().GetRole()}
	if diff := cmp.Diff([]string{"inband", "VIRTUAL_MEDIA", "control-plane", "auto", "PXE", "worker"}, got); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}

func TestKindOf(t *testing.T) {
	for _, k := range fsmtest.Kinds() {
		if got := fsm.KindOf(fsmtest.Step(k)); got != k {
			t.Errorf("got %q, want %q", got, k)
		}
	}
	if got := fsm.KindOf(&holdfastv1.Step{}); got != "" {
		t.Errorf("no kind: got %q", got)
	}
}

func TestPlansAreImmutableOnceUsed(t *testing.T) {
	p := fsmtest.NewPeer()
	first := do(t, p, &internalv1.CreatePlan{Plan: planOf("plan/x", "ssh")}).(*holdfastv1.Plan)
	if first.GetBuiltIn() || first.GetReferenced() || first.GetCreatedAt() == nil {
		t.Errorf("created: got %v", first)
	}
	// Repeating it is accepted, whatever its output-only fields contain.
	again := planOf("plan/x", "ssh")
	again.BuiltIn, again.Referenced = true, true
	before := dump(t, p)
	same(t, "the same plan again", first, do(t, p, &internalv1.CreatePlan{Plan: again}))
	same(t, "the same plan again, replacing", first, do(t, p, &internalv1.CreatePlan{Plan: again, Replace: true}))
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("the same plan again changed:\n%s", diff)
	}
	other := planOf("plan/x", "reboot")
	refused(t, p, &internalv1.CreatePlan{Plan: other}, fsm.AlreadyExists, "PLAN_EXISTS")
	named := planOf("plan/x", "ssh")
	named.DisplayName = "Another name"
	refused(t, p, &internalv1.CreatePlan{Plan: named}, fsm.AlreadyExists, "PLAN_EXISTS")
	do(t, p, &internalv1.CreatePlan{Plan: other, Replace: true})

	register(t, p, "m", ready)
	run := start(t, p, "m", "request-1", "", "plan/x")
	if run.GetSteps()[0].GetKind() != "reboot" {
		t.Errorf("run: got %v, want the plan that replaced the first", run)
	}
	do(t, p, &internalv1.CreatePlan{Plan: other})
	refused(t, p, &internalv1.CreatePlan{Plan: planOf("plan/x", "rma"), Replace: true}, fsm.FailedPrecondition,
		"PLAN_REFERENCED")
	refused(t, p, &internalv1.DeletePlan{PlanId: "plan/x"}, fsm.FailedPrecondition, "PLAN_REFERENCED")
	finish(t, p, "run-request-1", succeeded)
	refused(t, p, &internalv1.DeletePlan{PlanId: "plan/x"}, fsm.FailedPrecondition, "PLAN_REFERENCED")

	refused(t, p, &internalv1.CreatePlan{Plan: planOf("plan/reboot", "rma"), Replace: true}, fsm.FailedPrecondition,
		"PLAN_BUILT_IN")
	refused(t, p, &internalv1.CreatePlan{Plan: planOf("plan/reboot", "rma")}, fsm.AlreadyExists, "PLAN_EXISTS")
	refused(t, p, &internalv1.DeletePlan{PlanId: "plan/reboot"}, fsm.FailedPrecondition, "PLAN_BUILT_IN")
	refused(t, p, &internalv1.DeletePlan{PlanId: "plan/none"}, fsm.NotFound, "PLAN_NOT_FOUND")

	plan(t, p, "plan/y", "ssh")
	do(t, p, &internalv1.DeletePlan{PlanId: "plan/y"})
	if _, ok := p.View().Plan("plan/y"); ok {
		t.Error("deleted, and still there")
	}
	plan(t, p, "plan/y", "rma")
}

func TestPlansPages(t *testing.T) {
	p := fsmtest.NewPeer()
	plan(t, p, "a", "ssh")
	plan(t, p, "z", "ssh")
	want := []string{"a", "z"}
	for _, pl := range fsm.DefaultPlans() {
		want = append(want, pl.GetPlanId())
	}
	slices.Sort(want)
	ids := func(after string) []string {
		var got []string
		for pl := range p.View().Plans(after) {
			got = append(got, pl.GetPlanId())
			if pl.GetBuiltIn() != strings.HasPrefix(pl.GetPlanId(), "plan/") {
				t.Errorf("%s: built_in is %v", pl.GetPlanId(), pl.GetBuiltIn())
			}
		}
		return got
	}
	if diff := cmp.Diff(want, ids("")); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[slices.Index(want, "plan/reboot")+1:], ids("plan/reboot")); diff != "" {
		t.Errorf("after plan/reboot (-want +got):\n%s", diff)
	}
	if got := ids(slices.Max(want)); got != nil {
		t.Errorf("after the last: got %v", got)
	}
}
