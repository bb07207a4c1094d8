package fsm_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestStartRun(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", inService)
	do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/x", Steps: []*holdfastv1.Step{
		{Name: "a", Kind: fsmtest.Step("ssh").Kind},
		{Name: "b", TimeoutSeconds: 7, MaxRetries: proto.Int32(0), Kind: fsmtest.Step("repave").Kind},
	}}})
	op := startOp("m-1", "request-1", "repave", "plan/x")
	op.Params = map[string]string{"image": "ubuntu"}
	got := do(t, p, op).(*holdfastv1.Run)
	now := p.View().Meta().GetNow()
	want := &holdfastv1.Run{RunId: "run-request-1", MachineId: "m-1", RequestId: "request-1", Type: "REPAVE",
		PlanId: "plan/x",
		Phase:  holdfastv1.Run_PENDING, CurrentStep: "a", CreatedAt: now, Params: map[string]string{"image": "ubuntu"},
		Steps: []*holdfastv1.StepStatus{
			{Name: "a", State: holdfastv1.StepStatus_WAITING, Kind: "ssh", TimeoutSeconds: 600, MaxRetries: 2},
			{Name: "b", State: holdfastv1.StepStatus_WAITING, Kind: "repave", TimeoutSeconds: 7, MaxRetries: 0},
		},
		Wait:          &holdfastv1.Wait{Kind: holdfastv1.Wait_QUEUE, Since: now},
		QueuePosition: 1, MachinePhaseBefore: inService, Principal: "tester",
		Effect: "erases the disk and installs ubuntu", Image: "ubuntu", Revision: p.Index}
	same(t, "result", want, got)
	same(t, "stored", want, getRun(t, p, "run-request-1"))
	m := getMachine(t, p, "m-1").GetStatus()
	if m.GetPhase() != provisioning || m.GetActiveRunId() != "run-request-1" ||
		m.GetEffectiveState() != holdfastv1.EffectiveState_PROVISIONING ||
		m.GetNodeState() != holdfastv1.Node_INSTALLING {
		t.Errorf("machine: got %v, want PROVISIONING, installing, with the run", m)
	}
	for e := range p.View().History("m-1", 0) {
		by := "run"
		if e.GetFrom() == "ACTIVE" || e.GetFrom() == "REPROVISION" { // its start approves the way of the node
			by = "operator"
		}
		if e.GetTriggeredBy() != by || e.GetRunId() != "run-request-1" || e.GetPrincipal() != "tester" {
			t.Errorf("history: got %v, want it to name the run", e)
		}
		if e.GetFacet() == "phase" {
			break
		}
	}
	if pl, _ := p.View().Plan("plan/x"); !pl.GetReferenced() {
		t.Error("the plan is not marked as referenced")
	}
}

// A step that installs has its own default timeout, because its machine boots twice.
func TestDefaultTimeouts(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", inService)
	do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/x", Steps: []*holdfastv1.Step{
		{Name: "power", Kind: fsmtest.Step("power").Kind}, {Name: "install", Kind: fsmtest.Step("repave").Kind},
		{Name: "short", TimeoutSeconds: 7, Kind: fsmtest.Step("repave").Kind},
		{Name: "wipe", Kind: &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{Wipe: true}}}, {Name: "mark",
			Kind: &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{}}},
	}}})
	op := startOp("m-1", "request-1", "repave", "plan/x")
	op.DefaultInstallTimeoutSeconds = 3600
	got := map[string]int32{}
	for _, s := range do(t, p, op).(*holdfastv1.Run).GetSteps() {
		got[s.GetName()] = s.GetTimeoutSeconds()
	}
	if diff := cmp.Diff(map[string]int32{"power": 600, "install": 3600, "short": 7, "wipe": 3600, "mark": 600},
		got); diff != "" {
		t.Errorf("timeouts (-want +got):\n%s", diff)
	}
}

func TestStartRunTypes(t *testing.T) {
	plans := map[string]string{"REPAVE": "plan/repave-join", "RMA": "plan/rma", "REBOOT": "plan/reboot",
		"UPGRADE": "plan/upgrade", "NET_RECONFIG": "plan/net-reconfig"}
	n := 0
	p := fsmtest.NewPeer()
	for canonical, planID := range plans {
		for _, spelled := range []string{canonical, strings.ToLower(canonical), strings.ReplaceAll(canonical, "_", "-"),
			strings.ToLower(strings.ReplaceAll(canonical, "_", "-")), canonical[:1] + strings.ToLower(canonical[1:])} {
			n++
			id := fmt.Sprintf("m-%d", n)
			register(t, p, id, ready)
			r := start(t, p, id, fmt.Sprintf("request-%d", n), spelled, "")
			if r.GetType() != canonical || r.GetPlanId() != planID {
				t.Errorf("%q: got type %q and plan %q, want %q and %q", spelled, r.GetType(), r.GetPlanId(), canonical, planID)
			}
			if got, ok := fsm.CanonicalType(spelled); got != canonical || !ok {
				t.Errorf("CanonicalType(%q): got %q, %v, want %q", spelled, got, ok, canonical)
			}
		}
	}
	for _, bad := range []string{"", "REIMAGE", "REPAVE ", " RMA", "NETRECONFIG", "NET RECONFIG", "REBOOT_", "-RMA", "*"} {
		if got, ok := fsm.CanonicalType(bad); ok {
			t.Errorf("CanonicalType(%q): got %q, want none", bad, got)
		}
	}
	// A plan alone is enough, and leaves the type empty.
	register(t, p, "m", ready)
	if r := start(t, p, "m", "request-plan", "", "plan/reboot"); r.GetType() != "" || r.GetPlanId() != "plan/reboot" {
		t.Errorf("plan alone: got type %q and plan %q", r.GetType(), r.GetPlanId())
	}
}

// fault is one reason to refuse a start. The faults are in the order of the checks.
type fault struct {
	name   string
	spoil  func(*internalv1.StartRun)
	code   fsm.Code
	reason string
}

func TestStartRunChecksInOrder(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, id := range []string{"m-busy", "m-retired"} {
		register(t, p, id, ready)
	}
	start(t, p, "m-busy", "request-busy", "REBOOT", "")
	start(t, p, "m-retired", "request-old", "REBOOT", "")
	finish(t, p, "run-request-old", succeeded)
	do(t, p, &internalv1.SetMachinePhase{MachineId: "m-retired", Phase: retired})
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-provider",
		Spec: &holdfastv1.MachineSpec{Provider: "dc-1"}}})

	checks := []fault{
		{"no request id", func(c *internalv1.StartRun) { c.RequestId = "" }, fsm.InvalidArgument, "INVALID_FIELD"},
		{"neither type nor plan", func(c *internalv1.StartRun) { c.Type, c.PlanId = "", "" }, fsm.InvalidArgument,
			"INVALID_FIELD"},
		{"unknown type", func(c *internalv1.StartRun) { c.Type = "REIMAGE" }, fsm.InvalidArgument, "INVALID_FIELD"},
		{"no machine id", func(c *internalv1.StartRun) { c.MachineId = "" }, fsm.InvalidArgument, "INVALID_FIELD"},
		{"unknown plan", func(c *internalv1.StartRun) { c.PlanId = "plan/none" }, fsm.NotFound, "PLAN_NOT_FOUND"},
	}
	// A replay is accepted in spite of these. The state faults below exclude each other, so
	// each has its own machine.
	state := []struct {
		fault
		machine string
	}{
		{fault{"unknown machine", func(*internalv1.StartRun) {}, fsm.NotFound, "MACHINE_NOT_FOUND"}, "m-none"},
		{fault{"retired", func(*internalv1.StartRun) {}, fsm.FailedPrecondition, "MACHINE_RETIRED"}, "m-retired"},
		{fault{"provider changed", func(*internalv1.StartRun) {}, fsm.Aborted, fsm.ReasonProviderChanged}, "m-provider"},
		{fault{"capability missing", func(c *internalv1.StartRun) {
			c.MissingCapability, c.MissingForStep = "no BMC",
				"reboot"
		}, fsm.FailedPrecondition, "CAPABILITY_MISSING"}, "m-busy"},
		{fault{"active run", func(*internalv1.StartRun) {}, fsm.FailedPrecondition, fsm.ReasonActiveRun}, "m-busy"},
	}
	for i, first := range checks {
		for _, second := range checks[i:] {
			for _, s := range state {
				op := startOp(s.machine, "request-new", "REBOOT", "plan/reboot")
				s.spoil(op)
				second.spoil(op)
				first.spoil(op)
				if second.name == "unknown type" && first.name == "neither type nor plan" {
					continue // the type is either present or missing
				}
				if e := refused(t, p, op, first.code, first.reason); first.code == fsm.InvalidArgument && len(e.Fields) != 1 {
					t.Errorf("%s before %s before %s: got %v", first.name, second.name, s.name, e.Fields)
				}
			}
		}
	}
	wantField := []string{"request_id", "type", "type", "machine_id"}
	for i, field := range wantField {
		op := startOp("m-busy", "request-new", "REBOOT", "")
		checks[i].spoil(op)
		if e := refused(t, p, op, fsm.InvalidArgument, "INVALID_FIELD"); e.Fields[0].Field != field {
			t.Errorf("%s: got field %s, want %s", checks[i].name, e.Fields[0].Field, field)
		}
	}
	for i, first := range state {
		for _, second := range state[i:] {
			op := startOp(first.machine, "request-new", "REBOOT", "plan/reboot")
			second.spoil(op)
			first.spoil(op)
			e := refused(t, p, op, first.code, first.reason)
			if first.reason == fsm.ReasonActiveRun && e.Meta["run_id"] != "run-request-busy" {
				t.Errorf("active run: got %v, want the run in it", e.Meta)
			}
			if first.reason == "CAPABILITY_MISSING" && e.Meta["step"] != "reboot" {
				t.Errorf("capability: got %v, want the step in it", e.Meta)
			}
		}
	}
	// A replay takes precedence over all checks of the state, and over no others.
	for _, s := range state {
		if s.machine == "m-none" || s.machine == "m-provider" {
			continue
		}
		op := startOp(s.machine, map[string]string{"m-busy": "request-busy", "m-retired": "request-old"}[s.machine],
			"REBOOT", "")
		s.spoil(op)
		want := op.GetRunId()
		op.RunId, op.CheckedProvider = "run-another", "dc-9"
		if got := do(t, p, op).(*holdfastv1.Run); got.GetRunId() != want {
			t.Errorf("replay with %s: got run %s, want %s", s.name, got.GetRunId(), want)
		}
		op.PlanId = "plan/none"
		refused(t, p, op, fsm.NotFound, "PLAN_NOT_FOUND")
	}
}

func TestStartRunLimits(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	long := startOp("m", strings.Repeat("r", 129), "REBOOT", "")
	refused(t, p, long, fsm.InvalidArgument, "INVALID_FIELD")
	params := startOp("m", "request-1", "REBOOT", "")
	params.Params = map[string]string{"net_config": strings.Repeat("x", 128<<10)}
	refused(t, p, params, fsm.InvalidArgument, "INVALID_FIELD")

	// The proposer generates the run id. With an empty one the machine would have an active
	// run that cannot be found.
	none := startOp("m", "request-1", "REBOOT", "")
	for _, bad := range []string{"", "a/b", "run\n", strings.Repeat("r", 65)} {
		none.RunId = bad
		refused(t, p, none, fsm.InvalidArgument, "INVALID_FIELD")
	}
	start(t, p, "m", "request-1", "REBOOT", "")
	register(t, p, "m-2", ready)
	taken := startOp("m-2", "request-2", "REBOOT", "")
	taken.RunId = "run-request-1"
	refused(t, p, taken, fsm.Aborted, fsm.ReasonIDTaken)
}

func TestReplay(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	register(t, p, "m-2", ready)
	plan(t, p, "plan/x", "reboot")
	op := func() *internalv1.StartRun {
		o := startOp("m", "request-1", "REBOOT", "")
		o.Params = map[string]string{"force": "true", "shutdown_seconds": "30"}
		return o
	}
	first := do(t, p, op()).(*holdfastv1.Run)
	tests := []struct {
		name   string
		change func(*internalv1.StartRun)
		want   []string // the differences in the error; nil for a replay
	}{
		{"the same", func(*internalv1.StartRun) {}, nil},
		{"another run id and other defaults", func(c *internalv1.StartRun) {
			c.RunId, c.DefaultMaxRetries, c.DefaultTimeoutSeconds = "run-other", 9, 9
		}, nil},
		{"the type in another spelling", func(c *internalv1.StartRun) { c.Type = "reboot" }, nil},
		{"the default plan by its name", func(c *internalv1.StartRun) { c.PlanId = "plan/reboot" }, nil},
		{"another type", func(c *internalv1.StartRun) { c.Type, c.PlanId = "RMA", "plan/reboot" },
			[]string{`type is "RMA", was "REBOOT"`}},
		{"no type", func(c *internalv1.StartRun) { c.Type, c.PlanId = "", "plan/reboot" },
			[]string{`type is "", was "REBOOT"`}},
		{"another plan", func(c *internalv1.StartRun) { c.PlanId = "plan/x" },
			[]string{`plan_id is "plan/x", was "plan/reboot"`}},
		{"another value", func(c *internalv1.StartRun) { c.Params["force"] = "false" }, []string{"params differ"}},
		{"a parameter more", func(c *internalv1.StartRun) { c.Params["new"] = "" }, []string{"params differ"}},
		{"no parameters", func(c *internalv1.StartRun) { c.Params = nil }, []string{"params differ"}},
		{"all of it", func(c *internalv1.StartRun) { c.Type, c.Params = "UPGRADE", nil },
			[]string{`type is "UPGRADE", was "REBOOT"`, `plan_id is "plan/upgrade", was "plan/reboot"`, "params differ"}},
	}
	points := []struct {
		name string
		move func()
	}{
		{"pending", func() {}},
		{"running", func() { begin(t, p, "run-request-1") }},
		{"ended", func() { end(t, p, "run-request-1", succeeded) }},
		{"busy with another run", func() { start(t, p, "m", "request-2", "REBOOT", "") }},
		{"retired", func() {
			finish(t, p, "run-request-2", succeeded)
			do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: retired})
		}},
		{"with a leader of its own", func() { p.Lead(7) }},
		{"deleted", func() { do(t, p, &internalv1.DeleteMachine{MachineId: "m"}) }},
	}
	for _, point := range points {
		point.move()
		for _, tt := range tests {
			t.Run(point.name+"/"+tt.name, func(t *testing.T) {
				c := op()
				tt.change(c)
				if tt.want == nil {
					before := dump(t, p)
					same(t, "replay", getRun(t, p, first.GetRunId()), do(t, p, c))
					if diff := before.Diff(dump(t, p)); diff != "" {
						t.Errorf("a replay changed:\n%s", diff)
					}
					return
				}
				e := refused(t, p, c, fsm.AlreadyExists, fsm.ReasonRequestConflict)
				if !strings.HasSuffix(e.Message, "with another request: "+strings.Join(tt.want, "; ")) ||
					e.Meta["run_id"] != "run-request-1" {
					t.Errorf("got %q with %v, want what differs: %v", e.Message, e.Meta, tt.want)
				}
			})
		}
	}
	// The same request id on another machine is another request.
	other := startOp("m-2", "request-1", "RMA", "")
	other.RunId = "run-of-m-2"
	if r := do(t, p, other).(*holdfastv1.Run); r.GetRunId() != "run-of-m-2" {
		t.Errorf("another machine: got run %s, want one of its own", r.GetRunId())
	}
	if r, ok := p.View().RunByRequest("m-2", "request-1"); !ok || r.GetRunId() != "run-of-m-2" {
		t.Errorf("RunByRequest: got %v, %v", r, ok)
	}
	if r, ok := p.View().RunByRequest("m", "request-"); ok || r != nil {
		t.Errorf("RunByRequest of a prefix: got %v, %v, want nothing", r, ok)
	}
}

// TestRequestsWithInvalidMachineIDs checks that a slash in a machine id does not match
// another machine's requests.
func TestRequestsWithInvalidMachineIDs(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	op := startOp("m", "a/b", "REBOOT", "")
	op.RunId = "run-1234"
	do(t, p, op)
	op = startOp("m/a", "b", "REBOOT", "")
	refused(t, p, op, fsm.NotFound, "MACHINE_NOT_FOUND")
	if r, ok := p.View().RunByRequest("m/a", "b"); ok || r != nil {
		t.Errorf("RunByRequest: got %v, %v, want nothing", r, ok)
	}
}

func TestOneActiveRun(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	// With both in one entry, the second sees the first.
	rs := p.Propose(fsmtest.Command(startOp("m", "request-1", "REBOOT", "")),
		fsmtest.Command(startOp("m", "request-2", "REBOOT", "")))
	if rs[0].Err != nil || rs[1].Err == nil || rs[1].Err.Reason != fsm.ReasonActiveRun ||
		rs[1].Err.Meta["run_id"] != "run-request-1" {
		t.Fatalf("two starts in one entry: got %v and %v", rs[0].Err, rs[1].Err)
	}
	busy := func(when string) {
		t.Helper()
		if e := refused(t, p, startOp("m", "request-3", "RMA", ""), fsm.FailedPrecondition,
			fsm.ReasonActiveRun); !strings.Contains(e.Message, "run-request-1") {
			t.Errorf("%s: got %q, want it to name the run", when, e.Message)
		}
	}
	busy("pending")
	begin(t, p, "run-request-1")
	busy("running")
	end(t, p, "run-request-1", failed)
	busy("between attempts")
	do(t, p, &internalv1.CancelRun{RunId: "run-request-1"})
	busy("being canceled")
	do(t, p, &internalv1.AbortRun{RunId: "run-request-1", Phase: holdfastv1.Run_CANCELED})
	start(t, p, "m", "request-3", "RMA", "")
}

func TestRunLists(t *testing.T) {
	p := fsmtest.NewPeer()
	var all []string
	for i := range 9 {
		m := fmt.Sprintf("m-%d", i)
		register(t, p, m, ready)
		start(t, p, m, fmt.Sprintf("request-%d", i), "REBOOT", "")
		all = append(all, fmt.Sprintf("run-request-%d", i))
	}
	finish(t, p, "run-request-2", succeeded)
	finish(t, p, "run-request-5", failed)
	begin(t, p, "run-request-0")
	start(t, p, "m-2", "request-9", "REBOOT", "")
	all = append(all, "run-request-9")

	v := p.View()
	var got []string
	key := ""
	for len(got) < len(all) {
		n := 0
		for k, r := range v.Runs(key) {
			got, key = append(got, r.GetRunId()), k
			if n++; n == 4 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	newest := slices.Clone(all)
	slices.Reverse(newest)
	if diff := cmp.Diff(newest, got); diff != "" {
		t.Errorf("runs in pages (-want +got):\n%s", diff)
	}
	got = nil
	for k, r := range v.MachineRuns("m-2", "") {
		got = append(got, r.GetRunId())
		for _, older := range v.MachineRuns("m-2", k) {
			got = append(got, "older: "+older.GetRunId())
		}
	}
	if diff := cmp.Diff([]string{"run-request-9", "older: run-request-2", "run-request-2"}, got); diff != "" {
		t.Errorf("runs of m-2 (-want +got):\n%s", diff)
	}
	if n := len(maps.Collect(v.MachineRuns("m", ""))); n != 0 {
		t.Errorf("runs of m: got %d, want none", n)
	}
	got = nil
	for r := range v.ActiveRuns() {
		got = append(got, r.GetRunId())
	}
	want := slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		return id == "run-request-2" ||
			id == "run-request-5"
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("active runs (-want +got):\n%s", diff)
	}
	got = nil
	for r := range v.RunsByAge() {
		if got = append(got, r.GetRunId()); len(got) == 7 {
			break
		}
	}
	if diff := cmp.Diff(all[:7], got); diff != "" {
		t.Errorf("the oldest runs (-want +got):\n%s", diff)
	}
	if r, ok := v.Run("run-none"); ok || r != nil {
		t.Errorf("a run that is not there: got %v, %v", r, ok)
	}
	// Only pending runs have a queue position.
	position := map[string]int32{}
	for _, id := range all {
		if r := getRun(t, p, id); r.GetQueuePosition() > 0 {
			position[id] = r.GetQueuePosition()
		}
	}
	wantPosition := map[string]int32{"run-request-1": 1, "run-request-3": 2, "run-request-4": 3, "run-request-6": 4,
		"run-request-7": 5, "run-request-8": 6, "run-request-9": 7}
	if diff := cmp.Diff(wantPosition, position); diff != "" {
		t.Errorf("queue positions (-want +got):\n%s", diff)
	}
}

// A request id is a line of text that looks like no other.
func TestRequestID(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, id := range []string{" ", "  ", "a ", "\ta", "a\nb", "a\u200b", "\u00a0a"} {
		op := startOp("m-1", id, "REBOOT", "")
		if e := refused(t, p, op, fsm.InvalidArgument, "INVALID_FIELD"); e.Fields[0].Field != "request_id" {
			t.Errorf("%q: got field %s, want request_id", id, e.Fields[0].Field)
		}
	}
}
