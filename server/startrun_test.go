package server

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func TestStartRun(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{DefaultStepTimeout: 7 * time.Minute, DefaultMaxRetries: 4})
	ctx := testCtx(t)
	n.Machine(t, "m-1")
	n.Do(t, &internalv1.CreatePlan{Plan: nodetest.OnePlan("one")})

	req := &holdfastv1.StartRunRequest{RequestId: "req-1", MachineId: "m-1", Type: "net-reconfig", PlanId: "one"}
	run, err := c.StartRun(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^run-[0-9a-f]{12}$`).MatchString(run.GetRunId()) {
		t.Errorf("run id is %q", run.GetRunId())
	}
	if run.GetPhase() != holdfastv1.Run_PENDING || run.GetType() != "NET_RECONFIG" || run.GetQueuePosition() != 1 ||
		run.GetPrincipal() != "anonymous" {
		t.Errorf("got %v", run)
	}
	want := []*holdfastv1.StepStatus{{Name: "one", Kind: "ssh", State: holdfastv1.StepStatus_WAITING,
		TimeoutSeconds: 420, MaxRetries: 4}}
	if diff := cmp.Diff(want, run.GetSteps(), protocmp.Transform()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}

	n.Begin(t, run.GetRunId(), 1)
	replay, err := c.StartRun(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if replay.GetRunId() != run.GetRunId() || replay.GetPhase() != holdfastv1.Run_RUNNING {
		t.Errorf("replay: got %s %s, want %s RUNNING", replay.GetRunId(), replay.GetPhase(), run.GetRunId())
	}
	got, err := c.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: run.GetRunId()})
	if diff := cmp.Diff(replay, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("GetRun: %v, (-want +got):\n%s", err, diff)
	}
}

// TestValidateOnly checks that a dry run refuses what the start refuses, with the same error, and
// starts nothing.
func TestValidateOnly(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	for _, id := range []string{"m-1", "busy"} {
		n.Machine(t, id)
	}
	n.Start(t, "busy", "run-busy", "plan/reboot")
	for name, req := range map[string]*holdfastv1.StartRunRequest{
		"good":      {MachineId: "m-1", Type: "RMA", Params: map[string]string{"wipe": "true"}},
		"value":     {MachineId: "m-1", Type: "RMA", Params: map[string]string{"wipe": "True"}},
		"empty":     {MachineId: "m-1", Type: "REPAVE", Params: map[string]string{"image": ""}},
		"boot mode": {MachineId: "m-1", Type: "REPAVE", Params: map[string]string{"boot_mode": "efi"}},
		"name":      {MachineId: "m-1", Type: "REPAVE", Params: map[string]string{"imag": "x"}},
		"busy":      {MachineId: "busy", Type: "REBOOT"},
		"unknown":   {MachineId: "none", Type: "REBOOT"},
		"no plan":   {MachineId: "m-1", PlanId: "none"},
	} {
		before := n.Peer.View().Meta().GetAppliedIndex()
		req.ValidateOnly = true
		run, dry := c.StartRun(ctx, req)
		if got := n.Peer.View().Meta().GetAppliedIndex(); got != before {
			t.Errorf("%s: index %d after the dry run, want %d", name, got, before)
		}
		const erases = "erases all disks; powers the machine off for its return"
		if dry == nil && (run.GetRunId() != "" || run.GetEffect() != erases) {
			t.Errorf("%s: got %v", name, run)
		}
		req.ValidateOnly, req.RequestId = false, "r-"+name
		_, actual := c.StartRun(ctx, req)
		if a, b := status.Convert(dry), status.Convert(actual); a.Code() != b.Code() || a.Message() != b.Message() {
			t.Errorf("%s: dry run: %v, start: %v, want the same", name, dry, actual)
		}
	}
}

// TestStartRunOrder tests the checks in the order of docs/clients.md. Each request also
// has the faults of all later checks.
func TestStartRunOrder(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	n.Machine(t, "busy")
	n.Machine(t, "retired")
	n.Do(t, &internalv1.SetMachinePhase{MachineId: "retired", Phase: holdfastv1.MachineStatus_RETIRED})
	n.Machine(t, "idle")
	n.Start(t, "busy", "run-busy", "plan/reboot") // under request id req-run-busy
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
		MachineId: "weak", Labels: map[string]string{"provider": "button"}, Spec: &holdfastv1.MachineSpec{},
	}})
	n.Start(t, "weak", "run-weak", "plan/reboot")
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "lost",
		Spec: &holdfastv1.MachineSpec{Provider: "elsewhere"}}})

	for _, tt := range []struct {
		name    string
		req     *holdfastv1.StartRunRequest
		code    codes.Code
		reason  string
		message string
	}{
		{"no request id", &holdfastv1.StartRunRequest{Type: "REPAINT", PlanId: "x", MachineId: "x"}, codes.InvalidArgument,
			"INVALID_FIELD", "request_id"},
		{"no type and no plan", &holdfastv1.StartRunRequest{RequestId: "r", MachineId: "x"}, codes.InvalidArgument,
			"INVALID_FIELD", "type and plan_id are both empty"},
		{"unknown type", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REPAINT", PlanId: "x", MachineId: "x"},
			codes.InvalidArgument, "INVALID_FIELD", `"REPAINT" is not one of`},
		{"no machine id", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT", PlanId: "x"}, codes.InvalidArgument,
			"INVALID_FIELD", "machine_id"},
		{"unknown plan beats replay", &holdfastv1.StartRunRequest{RequestId: "req-run-busy", PlanId: "x",
			MachineId: "busy"}, codes.NotFound, "PLAN_NOT_FOUND", `plan "x" not found`},
		{"unknown plan beats unknown machine", &holdfastv1.StartRunRequest{RequestId: "r", PlanId: "x", MachineId: "x"},
			codes.NotFound, "PLAN_NOT_FOUND", `plan "x" not found`},
		{"replay beats busy", &holdfastv1.StartRunRequest{RequestId: "req-run-busy", PlanId: "plan/reboot",
			MachineId: "busy"}, codes.OK, "", ""},
		{"other plan", &holdfastv1.StartRunRequest{RequestId: "req-run-busy", PlanId: "plan/rma", MachineId: "busy"},
			codes.AlreadyExists, "REQUEST_CONFLICT", `plan_id is "plan/rma", was "plan/reboot"`},
		{"other type", &holdfastv1.StartRunRequest{RequestId: "req-run-busy", Type: "REBOOT", MachineId: "busy"},
			codes.AlreadyExists, "REQUEST_CONFLICT", `type is "REBOOT", was ""`},
		{"other params", &holdfastv1.StartRunRequest{RequestId: "req-run-busy", PlanId: "plan/reboot", MachineId: "busy",
			Params: map[string]string{"a": "b"}}, codes.AlreadyExists, "REQUEST_CONFLICT", "params differ"},
		{"unknown machine", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT", MachineId: "x"}, codes.NotFound,
			"MACHINE_NOT_FOUND", `machine "x" not found`},
		{"retired", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT", MachineId: "retired"},
			codes.FailedPrecondition, "MACHINE_RETIRED", "RETIRED"},
		{"capability missing beats busy", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REPAVE", MachineId: "weak"}, codes.FailedPrecondition, "CAPABILITY_MISSING", `step "set-netboot" of plan "plan/repave-join" cannot run on machine "weak": provider "button" lacks BootController`},
		{"provider not configured", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT", MachineId: "lost"},
			codes.FailedPrecondition, "CAPABILITY_MISSING", `provider "elsewhere" is not configured (configured: button, fake)`},
		{"busy", &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT", MachineId: "busy"}, codes.FailedPrecondition,
			"ACTIVE_RUN", `active run run-busy`},
		{"fine", &holdfastv1.StartRunRequest{RequestId: "r", Type: "reboot", MachineId: "idle"}, codes.OK, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.StartRun(testCtx(t), tt.req)
			wantError(t, err, tt.code, tt.reason)
			if err != nil && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("got %q, want it to say %q", err, tt.message)
			}
		})
	}
}

// Capabilities are checked again if the plan is created or replaced before the commit.
func TestStartRunOfChangedPlan(t *testing.T) {
	for _, name := range []string{"replaced", "created"} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
				MachineId: "weak", Labels: map[string]string{"provider": "button"}, Spec: &holdfastv1.MachineSpec{},
			}})
			plan := func(s *holdfastv1.Step) {
				s.Name = "s"
				n.Do(t, &internalv1.CreatePlan{Replace: true, Plan: &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{s}}})
			}
			if name == "replaced" {
				plan(&holdfastv1.Step{Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "on"}}})
			}
			tries := 0
			n.Before = func(cmd *internalv1.Command) error {
				if cmd.GetStartRun() != nil {
					if tries++; tries == 1 {
						plan(&holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}}})
					}
				}
				return nil
			}
			_, err := c.StartRun(testCtx(t), &holdfastv1.StartRunRequest{RequestId: "r", PlanId: "p", MachineId: "weak"})
			wantError(t, err, codes.FailedPrecondition, "CAPABILITY_MISSING")
			if tries != 2 {
				t.Errorf("tried %d times, want 2", tries)
			}
		})
	}
}

// TestStartRunAgain checks that a change between the check and the commit causes another
// check.
func TestStartRunAgain(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	n.Machine(t, "m-1")
	tries := 0
	n.Before = func(cmd *internalv1.Command) error {
		if cmd.GetStartRun() == nil {
			return nil
		}
		if tries++; tries == 1 {
			n.Do(t, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Provider: "button"}}})
		}
		return nil
	}
	_, err := c.StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", Type: "REPAVE", MachineId: "m-1"})
	wantError(t, err, codes.FailedPrecondition, "CAPABILITY_MISSING")
	if tries != 2 {
		t.Errorf("tried %d times, want 2", tries)
	}

	ids := map[string]bool{}
	n.Before = func(cmd *internalv1.Command) error {
		id := cmd.GetStartRun().GetRunId()
		if ids[id] {
			t.Errorf("run id %s was generated twice", id)
		}
		if ids[id] = true; len(ids) < 3 {
			return &fsm.Error{Code: fsm.Aborted, Reason: fsm.ReasonIDTaken, Message: "taken"}
		}
		return nil
	}
	if _, err = c.StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r", Type: "REBOOT",
		MachineId: "m-1"}); err != nil {
		t.Fatal(err)
	}

	n.Before = func(*internalv1.Command) error {
		return &fsm.Error{Code: fsm.Aborted, Reason: fsm.ReasonProviderChanged, Message: "changed"}
	}
	_, err = c.StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "r2", Type: "REBOOT", MachineId: "m-1"})
	wantError(t, err, codes.Aborted, "PROVIDER_CHANGED")
}

// TestStartRunOnNewLeader checks that a leader whose state lags behind reads a consistent
// state.
func TestStartRunOnNewLeader(t *testing.T) {
	n := nodetest.New()
	behind := fsm.New() // never applies anything
	s := New(Config{}, n, behind, testProviders())
	n.Machine(t, "m-1")
	n.Do(t, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{Provider: "button"}}})
	_, err := s.runs.StartRun(testCtx(t), &holdfastv1.StartRunRequest{RequestId: "r", Type: "REPAVE",
		MachineId: "m-1"})
	var refusal *fsm.Error
	if !errors.As(err, &refusal) || refusal.Reason != "CAPABILITY_MISSING" {
		t.Errorf("got %v, want CAPABILITY_MISSING", err)
	}
}

func TestCancelRun(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{CancelWait: 5 * time.Second})
	ctx := testCtx(t)
	for _, id := range []string{"pending", "quick"} {
		n.Machine(t, id)
		n.Start(t, id, "run-"+id, "")
	}

	run, err := c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "run-pending", Reason: "not today"})
	if err != nil || run.GetPhase() != holdfastv1.Run_CANCELED || run.GetCancelReason() != "not today" {
		t.Errorf("pending: got %v, %v", run, err)
	}
	if run, err = c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "run-pending"}); err != nil ||
		run.GetPhase() != holdfastv1.Run_CANCELED {
		t.Errorf("again: got %v, %v", run, err)
	}

	n.Begin(t, "run-quick", 1)
	stopped := make(chan struct{})
	go func() { // the executor
		defer close(stopped)
		for {
			changed := n.Peer.Changed()
			if run, _ := n.Peer.View().Run("run-quick"); run.GetCancelRequestedAt() != nil {
				n.End(t, "run-quick", 1, holdfastv1.Attempt_CANCELED)
				return
			}
			<-changed
		}
	}()
	run, err = c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "run-quick"})
	if err != nil || run.GetPhase() != holdfastv1.Run_CANCELED {
		t.Errorf("quick: got %v, %v", run, err)
	}
	<-stopped
}

func TestCancelRunThatTakesLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
	}{{"waits", 20 * time.Millisecond}, {"does not wait", -1}} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{CancelWait: tt.wait})
			n.Machine(t, "slow")
			n.Start(t, "slow", "run-slow", "")
			n.Begin(t, "run-slow", 1)
			run, err := c.CancelRun(testCtx(t), &holdfastv1.CancelRunRequest{RunId: "run-slow"})
			if err != nil || run.GetPhase() != holdfastv1.Run_RUNNING || run.GetCancelRequestedAt() == nil {
				t.Errorf("got %v, %v, want it RUNNING with cancel_requested_at", run, err)
			}
		})
	}
}
