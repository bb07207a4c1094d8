package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func TestErrorDetails(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-active", "")

	_, err := c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
		MachineId: "not a name", Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:dd:ee:ff", "nonsense"}},
	}})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	var fields []string
	for _, v := range detail[*errdetails.BadRequest](err).GetFieldViolations() {
		fields = append(fields, v.GetField())
	}
	if got, want := strings.Join(fields, " "), "machine.machine_id machine.spec.mac_addresses[1]"; got != want {
		t.Errorf("violations of %q, want %q", got, want)
	}

	_, err = c.DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: "m-1"})
	wantError(t, err, codes.FailedPrecondition, "ACTIVE_RUN")
	v := detail[*errdetails.PreconditionFailure](err).GetViolations()
	if len(v) != 1 || v[0].GetType() != "ACTIVE_RUN" || v[0].GetSubject() != "runs/run-active" ||
		v[0].GetDescription() == "" {
		t.Errorf("precondition: got %v", v)
	}
	if got := detail[*errdetails.ErrorInfo](err).GetMetadata()["run_id"]; got != "run-active" {
		t.Errorf("metadata names run %q", got)
	}
}

// TestErrorTable checks the status of every kind of error.
func TestErrorTable(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	for _, id := range []string{"idle", "busy", "retired"} {
		n.Machine(t, id)
	}
	n.Start(t, "busy", "run-busy", "")
	n.Do(t, &internalv1.SetMachinePhase{MachineId: "retired", Phase: holdfastv1.MachineStatus_RETIRED})
	n.Machine(t, "done")
	n.Start(t, "done", "run-done", "")
	n.Finish(t, "run-done", holdfastv1.Attempt_SUCCEEDED)
	n.Do(t, &internalv1.CreatePlan{Plan: nodetest.OnePlan("unused")})

	for _, tt := range []struct {
		name   string
		call   func() error
		code   codes.Code
		reason string
	}{
		{"get machine without id", drop(c.GetMachine(ctx, &holdfastv1.GetMachineRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"get unknown machine", drop(c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "x"})), codes.NotFound,
			"MACHINE_NOT_FOUND"},
		{"explain without id", drop(c.ExplainMachine(ctx, &holdfastv1.ExplainMachineRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"explain unknown machine", drop(c.ExplainMachine(ctx, &holdfastv1.ExplainMachineRequest{MachineId: "x"})),
			codes.NotFound, "MACHINE_NOT_FOUND"},
		{"history without id", drop(c.ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{})),
			codes.InvalidArgument, "INVALID_FIELD"},
		{"history of unknown machine",
			drop(c.ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: "x"})), codes.NotFound,
			"MACHINE_NOT_FOUND"},
		{"register nothing", drop(c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"update without id", drop(c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"update unknown machine",
			drop(c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: &holdfastv1.Machine{MachineId: "x"}})),
			codes.NotFound, "MACHINE_NOT_FOUND"},
		{"delete without id", drop(c.DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"delete unknown machine", drop(c.DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: "x"})),
			codes.NotFound, "MACHINE_NOT_FOUND"},
		{"delete busy machine", drop(c.DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: "busy"})),
			codes.FailedPrecondition, "ACTIVE_RUN"},
		{"set no phase", setPhase(ctx, c, "idle", 0), codes.InvalidArgument, "INVALID_FIELD"},
		{"set unknown phase", setPhase(ctx, c, "idle", 99), codes.InvalidArgument, "INVALID_FIELD"},
		{"set phase of nothing", setPhase(ctx, c, "", holdfastv1.MachineStatus_RMA), codes.InvalidArgument, "INVALID_FIELD"},
		{"set PROVISIONING by hand", setPhase(ctx, c, "idle", holdfastv1.MachineStatus_PROVISIONING),
			codes.FailedPrecondition, "PHASE_TRANSITION"},
		{"set phase of a retired machine", setPhase(ctx, c, "retired", holdfastv1.MachineStatus_READY),
			codes.FailedPrecondition, "PHASE_TRANSITION"},
		{"set phase of a busy machine", setPhase(ctx, c, "busy", holdfastv1.MachineStatus_RMA), codes.FailedPrecondition,
			"ACTIVE_RUN"},
		{"set phase with a novel", drop(c.SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{
			MachineId: "idle", Phase: holdfastv1.MachineStatus_RMA, Comment: strings.Repeat("x", 1025),
		})), codes.InvalidArgument, "INVALID_FIELD"},

		{"get plan without id", drop(c.GetPlan(ctx, &holdfastv1.GetPlanRequest{})), codes.InvalidArgument, "INVALID_FIELD"},
		{"get unknown plan", drop(c.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: "x"})), codes.NotFound, "PLAN_NOT_FOUND"},
		{"create nothing", drop(c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{})), codes.InvalidArgument, "INVALID_FIELD"},
		{"create plan without steps",
			drop(c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "p"}})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"delete plan without id", drop(c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"delete unknown plan", drop(c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: "x"})), codes.NotFound,
			"PLAN_NOT_FOUND"},
		{"delete built-in plan", drop(c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: "plan/rma"})),
			codes.FailedPrecondition, "PLAN_BUILT_IN"},
		{"delete plan of a run", drop(c.DeletePlan(ctx, &holdfastv1.DeletePlanRequest{PlanId: "one"})),
			codes.FailedPrecondition, "PLAN_REFERENCED"},

		{"get run without id", drop(c.GetRun(ctx, &holdfastv1.GetRunRequest{})), codes.InvalidArgument, "INVALID_FIELD"},
		{"get unknown run", drop(c.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: "x"})), codes.NotFound, "RUN_NOT_FOUND"},
		{"cancel without id", drop(c.CancelRun(ctx, &holdfastv1.CancelRunRequest{})), codes.InvalidArgument, "INVALID_FIELD"},
		{"cancel unknown run", drop(c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "x"})), codes.NotFound,
			"RUN_NOT_FOUND"},
		{"cancel finished run", drop(c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "run-done"})),
			codes.FailedPrecondition, "RUN_FINISHED"},
		{"cancel with a novel", drop(c.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: "run-busy",
			Reason: strings.Repeat("x", 1025)})), codes.InvalidArgument, "INVALID_FIELD"},

		{"list machines by an unknown field",
			drop(c.ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: "colour=red"})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"list runs by an unknown value", drop(c.ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: "phase=STUCK"})),
			codes.InvalidArgument, "INVALID_FIELD"},
		{"list less than nothing", drop(c.ListRuns(ctx, &holdfastv1.ListRunsRequest{PageSize: -1})), codes.InvalidArgument,
			"INVALID_FIELD"},
		{"list with a token of nothing", drop(c.ListPlans(ctx, &holdfastv1.ListPlansRequest{PageToken: "abc"})),
			codes.InvalidArgument, "INVALID_FIELD"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantError(t, tt.call(), tt.code, tt.reason) })
	}
}

func drop[M any](_ M, err error) func() error { return func() error { return err } }

func setPhase(ctx context.Context, c *clients, id string, p holdfastv1.MachineStatus_Phase) func() error {
	return drop(c.SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{MachineId: id, Phase: p}))
}

// TestPanic checks that a panic of a handler ends one call, not the peer.
func TestPanic(t *testing.T) {
	n := nodetest.New()
	var log logBuffer
	_, c := serve(t, n, Config{Logger: log.logger()})
	ctx := testCtx(t)
	n.Viewed = func(context.Context) error { panic("boom") }
	_, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"})
	wantError(t, err, codes.Internal, "INTERNAL")
	if strings.Contains(err.Error(), "boom") {
		t.Errorf("the client gets %q", err)
	}
	stream, err := c.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantError(t, err, codes.Internal, "INTERNAL")
	if got := log.String(); strings.Count(got, "boom") != 2 || !strings.Contains(got, "errors_test.go") {
		t.Errorf("logged %q, want both panics with their stacks", got)
	}
	if _, err := c.GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{}); err != nil {
		t.Errorf("the peer is gone: %v", err)
	}
}
