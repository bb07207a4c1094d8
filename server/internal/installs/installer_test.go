package installs

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestReportIsRepeatable checks that a report that was not applied, because the leader changed, can
// be repeated with the same request, as the interceptor does.
func TestReportIsRepeatable(t *testing.T) {
	n := nodetest.New()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"02:00:00:00:00:01"}}}})
	n.Do(t, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "install", Steps: []*holdfastv1.Step{
		{Name: "repave", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}},
	}}})
	n.Start(t, "m-1", "run-1", "install")
	n.Begin(t, "run-1", 1)
	n.Do(t, &internalv1.OpenInstall{RunId: "run-1", Step: "repave", Attempt: 1, Image: "debian"})
	const token = "secret"
	n.Do(t, &internalv1.BootInstall{MachineId: "m-1", Sha256: tokenSum(token)})
	n.Before = func(*internalv1.Command) error {
		return &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrNoLeader}
	}
	s := New(&edge.Peer{Cluster: n, State: n.Peer}, fleet.Discovery{}, nil, nil)
	r := &holdfastv1.ReportInstallRequest{Token: token, Status: "progress",
		Caller: &holdfastv1.InstallCaller{LinkAddress: "02:00:00:00:00:01"}}
	before := proto.CloneOf(r)
	if _, err := s.ReportInstall(t.Context(), r); err == nil {
		t.Fatal("got no error without a leader")
	}
	if !proto.Equal(before, r) {
		t.Errorf("the request has changed: got %v, want %v", r, before)
	}
}

// TestNoInstallDuringConflict checks that a machine which may be another one boots its disk, until
// an operator has decided.
func TestNoInstallDuringConflict(t *testing.T) {
	const mac = "02:00:00:00:00:01"
	n := nodetest.New()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{mac}, Serial: "S1"}}})
	n.Do(t, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "install", Steps: []*holdfastv1.Step{
		{Name: "repave", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}},
	}}})
	n.Start(t, "m-1", "run-1", "install")
	s := New(&edge.Peer{Cluster: n, State: n.Peer}, fleet.Discovery{}, nil, nil)
	action := func() holdfastv1.BootMachineResponse_Action {
		t.Helper()
		answer, err := s.LookUpBoot(t.Context(), &holdfastv1.BootMachineRequest{Mac: mac,
			Caller: &holdfastv1.InstallCaller{LinkAddress: mac}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetAction()
	}
	if got := action(); got != holdfastv1.BootMachineResponse_WAIT {
		t.Errorf("before: got %v, want WAIT", got)
	}
	n.Peer.Propose(&internalv1.Command{Op: &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{
		RunId: "run-x", Report: &holdfastv1.ReportNodeRequest{MacAddress: mac,
			Facts: &holdfastv1.NodeRecord{SerialNumber: "S2"}}}}})
	if got := action(); got != holdfastv1.BootMachineResponse_DISK {
		t.Errorf("during the conflict: got %v, want DISK", got)
	}
	n.Do(t, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{Serial: "S2"}}, Paths: []string{"spec.serial"}})
	if got := action(); got != holdfastv1.BootMachineResponse_WAIT {
		t.Errorf("after the decision: got %v, want WAIT", got)
	}
}
