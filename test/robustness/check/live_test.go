package check_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/program"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// TestAllOnACluster checks that a correct cluster, whose leader is killed under load, passes all
// checks. Other faults are tested with package chaos.
func TestAllOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of processes")
	}
	t.Parallel()
	dir := t.TempDir()
	binary := program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	hw, err := localcluster.StartFakeHardware(ctx, binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	keys, err := workload.SecretsKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: dir, FakeEndpoint: hw.Endpoint,
		RaftMultiplier: 0.5, Args: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })

	target := workload.TargetOf(c, hw.Endpoint)
	w := workload.New(workload.Config{Seed: 1, MinOps: 200}, target)
	traffic, enough := context.WithTimeout(ctx, 20*time.Second)
	defer enough()
	done := make(chan error, 1)
	go func() { done <- w.Run(traffic) }()
	select {
	case err := <-done:
		t.Fatalf("workload ended: %v", err)
	case <-time.After(3 * time.Second):
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("workload ended: %v", err)
	case <-time.After(2 * time.Second):
	}
	if err := leader.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	h := w.History()
	for _, err := range check.All(ctx, h, target, dir) {
		t.Error(err)
	}
	for _, k := range []workload.Kind{workload.StartRun, workload.CancelRun, workload.GetRun, workload.UpdateMachine,
		workload.GetMachine, workload.ListMachines, workload.CreatePlan, workload.GetPlan} {
		t.Logf("%-14s ok %5d, refused %5d, not applied %4d, unknown %4d", k, h.Count(k, workload.OK),
			h.Count(k, workload.Refused), h.Count(k, workload.NotApplied), h.Count(k, workload.Unknown))
	}
	for _, w := range h.Watches {
		t.Logf("%s: %d events over %d streams", w.Name, len(w.Events), w.Sessions)
	}
	t.Logf("%d logs followed", len(h.Tails))
	t.Log(h.Fleet)
}
