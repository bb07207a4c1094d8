package server

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// sampleMachine returns a complete machine.
const sampleMachine = `{
  "machine_id": "m-123",
  "labels": {"env": "prod", "role": "worker", "provider": "dc-1"},
  "spec": {
    "ssh_endpoint": "10.20.30.40:22", "bmc_endpoint": "10.20.30.41",
    "target_cluster_ref": "cluster-a", "mac_addresses": ["aa:bb:cc:dd:ee:ff"]
  },
  "status": {
    "phase": "READY",
    "conditions": [
      {"type": "Reachable", "status": true, "reason": "PingOK"},
      {"type": "BMCReachable", "status": true, "reason": "RedfishOK"},
      {"type": "InCustomerCluster", "status": false, "reason": "NotJoined"}
    ],
    "active_run_id": ""
  }
}`

func TestRegisterMachine(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)

	m := &holdfastv1.Machine{}
	if err := protojson.Unmarshal([]byte(sampleMachine), m); err != nil {
		t.Fatal(err)
	}
	m.Spec.MacAddresses = []string{"AA-BB-CC-DD-EE-FF"}
	got, err := c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m})
	if err != nil {
		t.Fatal(err)
	}
	if mac := got.GetSpec().GetMacAddresses()[0]; mac != "aa:bb:cc:dd:ee:ff" {
		t.Errorf("MAC is %q", mac)
	}
	if s := got.GetStatus(); s.GetPhase() != holdfastv1.MachineStatus_READY || len(s.GetConditions()) != 0 {
		t.Errorf("status was taken from the client: %v", s)
	}
	again, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-123"})
	if diff := cmp.Diff(got, again, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("GetMachine: %v, (-want +got):\n%s", err, diff)
	}

	for _, tt := range []struct {
		asked, want holdfastv1.MachineStatus_Phase
	}{
		{holdfastv1.MachineStatus_FACTORY_READY, holdfastv1.MachineStatus_FACTORY_READY},
		{holdfastv1.MachineStatus_IN_SERVICE, holdfastv1.MachineStatus_READY},
		{77, holdfastv1.MachineStatus_READY},
	} {
		got, err := c.RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{Status: &holdfastv1.MachineStatus{Phase: tt.asked}}})
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(got.GetMachineId()) || got.GetStatus().GetPhase() != tt.want {
			t.Errorf("asked for %v: got %s in %v, want 8 hex characters in %v", tt.asked, got.GetMachineId(),
				got.GetStatus().GetPhase(), tt.want)
		}
	}
}

func TestRegisterMachineTakesAnotherID(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ids := map[string]bool{}
	n.Before = func(cmd *internalv1.Command) error {
		if r := cmd.GetRegisterMachine(); !r.GetGeneratedId() {
			t.Error("the FSM is not told that the id was generated")
		} else if ids[r.GetMachine().GetMachineId()] = true; len(ids) == 1 {
			return &fsm.Error{Code: fsm.Aborted, Reason: fsm.ReasonIDTaken, Message: "taken"}
		}
		return nil
	}
	if _, err := c.RegisterMachine(testCtx(t),
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{}}); err != nil || len(ids) != 2 {
		t.Errorf("got %v after the ids %v, want two", err, ids)
	}
}

func TestUpdateMachine(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths []string
		want  *holdfastv1.Machine
		code  codes.Code
	}{
		{"all", nil, &holdfastv1.Machine{Labels: map[string]string{"new": "1"}, Spec: &holdfastv1.MachineSpec{Rack: "r9"}},
			codes.OK},
		{"star", []string{"*"}, &holdfastv1.Machine{Labels: map[string]string{"new": "1"},
			Spec: &holdfastv1.MachineSpec{Rack: "r9"}}, codes.OK},
		{"one field", []string{"spec.rack"}, &holdfastv1.Machine{Labels: map[string]string{"env": "prod"},
			Spec: &holdfastv1.MachineSpec{Rack: "r9", Serial: "s"}}, codes.OK},
		{"clear a field", []string{"spec.serial"}, &holdfastv1.Machine{Labels: map[string]string{"env": "prod"},
			Spec: &holdfastv1.MachineSpec{Rack: "r7"}}, codes.OK},
		{"labels", []string{"labels"}, &holdfastv1.Machine{Labels: map[string]string{"new": "1"},
			Spec: &holdfastv1.MachineSpec{Rack: "r7", Serial: "s"}}, codes.OK},
		{"one label", []string{"labels.new"}, &holdfastv1.Machine{Labels: map[string]string{"env": "prod", "new": "1"},
			Spec: &holdfastv1.MachineSpec{Rack: "r7", Serial: "s"}}, codes.OK},
		{"status", []string{"status.phase"}, nil, codes.InvalidArgument},
		{"unknown", []string{"spec.colour"}, nil, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
				MachineId: "m-1", Labels: map[string]string{"env": "prod"}, Spec: &holdfastv1.MachineSpec{Rack: "r7", Serial: "s"},
			}})
			got, err := c.UpdateMachine(testCtx(t), &holdfastv1.UpdateMachineRequest{
				Machine: &holdfastv1.Machine{
					MachineId: "m-1", Labels: map[string]string{"new": "1"}, Spec: &holdfastv1.MachineSpec{Rack: "r9"},
					Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_RETIRED},
				},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: tt.paths},
			})
			if tt.code != codes.OK {
				wantError(t, err, tt.code, "INVALID_FIELD")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.GetStatus().GetPhase() != holdfastv1.MachineStatus_READY {
				t.Errorf("phase became %v", got.GetStatus().GetPhase())
			}
			if diff := cmp.Diff(tt.want, &holdfastv1.Machine{Labels: got.GetLabels(), Spec: got.GetSpec()},
				protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownFields checks that unknown fields of a newer client never reach the log,
// where they would stop every peer.
func TestUnknownFields(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	future := protowire.AppendString(protowire.AppendTag(nil, 4242, protowire.BytesType), "from the future")

	m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Rack: "r7"}}
	m.ProtoReflect().SetUnknown(future)
	m.Spec.ProtoReflect().SetUnknown(future)
	if _, err := c.RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: m}); err != nil {
		t.Fatal(err)
	}

	plan := nodetest.OnePlan("p")
	plan.GetSteps()[0].GetSsh().ProtoReflect().SetUnknown(future)
	_, err := c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: plan})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")

	// A step of an unknown kind has no kind here.
	plan = nodetest.OnePlan("p")
	plan.Steps[0].Kind = nil
	plan.Steps[0].ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 18, protowire.BytesType), nil))
	_, err = c.CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: plan})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")

	if err := n.Peer.HaltError(); err != nil {
		t.Errorf("the state has halted: %v", err)
	}
}

func TestMachineLife(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	ctx := testCtx(t)
	n.Machine(t, "m-1")
	m, err := c.SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{MachineId: "m-1",
		Phase: holdfastv1.MachineStatus_MAINTENANCE, Comment: "fan 3 is loud"})
	if err != nil || m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE {
		t.Fatalf("got %v, %v", m, err)
	}
	if _, err := c.DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: "m-1"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"})
	wantError(t, err, codes.NotFound, "MACHINE_NOT_FOUND")

	h, err := c.ListMachineHistory(ctx, &holdfastv1.ListMachineHistoryRequest{MachineId: "m-1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h.GetEntries() {
		got = append(got, e.GetFacet()+" "+e.GetTo()+" "+e.GetComment()+" "+e.GetPrincipal())
	}
	want := []string{"inventory deleted  anonymous", "phase MAINTENANCE fan 3 is loud anonymous",
		"phase READY registered tester"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}
