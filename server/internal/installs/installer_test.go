package installs

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster"
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
		return &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: cluster.ErrNoLeader}
	}
	s := New(&edge.Peer{Node: n, State: n.Peer}, fleet.Discovery{}, nil, nil)
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
