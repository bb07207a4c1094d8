package golden

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// TestWrite writes the directory of a release (make golden-data VERSION=…), with one resource of
// each kind, partly in a snapshot and partly in the log.
func TestWrite(t *testing.T) {
	version := os.Getenv("GOLDEN_VERSION")
	if version == "" {
		t.Skip("writes the data of a release: run make golden-data VERSION=1.2.3")
	}
	out := filepath.Join("testdata", version)
	if _, err := os.Stat(filepath.Join(out, "data.tar.gz")); err == nil {
		t.Fatalf("%s exists: the data of a release is never changed", out)
	}
	binary := program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	hw, err := localcluster.StartFakeHardware(ctx, binary, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	c := alone(ctx, t, localcluster.Config{Binary: binary, FakeEndpoint: hw.Endpoint,
		Args: []string{"--raft-snapshot-threshold", "8", "--raft-snapshot-interval", "1s", "--raft-trailing-logs", "8"}})
	p := c.Peers()[0]
	cl := serve(ctx, t, c)
	fill(ctx, t, cl)
	for { // wait for a snapshot of everything
		if found, err := filepath.Glob(filepath.Join(p.DataDir, "snapshots", "*", "state.bin")); err == nil &&
			len(found) > 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("wait for a snapshot: none was written")
		case <-time.After(100 * time.Millisecond):
		}
	}
	for i := range 4 {
		register(ctx, t, cl, fmt.Sprintf("late-%d", i))
	}
	// Read the state when no more changes are made.
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	idle := alone(ctx, t, localcluster.Config{Binary: binary})
	if err := os.MkdirAll(out, 0o750); err != nil {
		t.Fatal(err)
	}
	pack(t, p.DataDir, filepath.Join(out, "data.tar.gz"))
	unpack(t, filepath.Join(out, "data.tar.gz"), idle.Peers()[0].DataDir)
	seen := readAll(ctx, t, serve(ctx, t, idle))
	if missing := empty(seen); len(missing) > 0 {
		t.Errorf("got no resource of %v: fill must create one of each kind", missing)
	}
	text, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "seen.json"), append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

func register(ctx context.Context, t *testing.T, c *client.Client, id string) {
	t.Helper()
	if _, err := c.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
			Labels: map[string]string{"rack": "r1"}}}); err != nil {
		t.Fatal(err)
	}
}

// fill creates a resource of each kind.
func fill(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	must := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	sum := sha256.Sum256([]byte("golden"))
	_, err := c.Pools().CreatePool(ctx,
		&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: "gpu", GpuType: "h100"}})
	must("pool", err)
	_, err = c.Pools().RegisterProvider(ctx,
		&holdfastv1.RegisterProviderRequest{Provider: &holdfastv1.PlatformProvider{ProviderId: "dc-1"}})
	must("provider", err)
	_, err = c.Registry().RegisterService(ctx,
		&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{Id: "0b1c2d3e-0000-4000-8000-000000000001",
			ServiceName: "api", Host: "127.0.0.1", Port: 80, ServiceType: "http"}})
	must("service", err)
	_, err = c.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc",
		Values: map[string]string{"username": "root", "password": "golden"}})
	must("secret", err)
	_, err = c.Access().CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "viewer", Role: holdfastv1.Role_VIEWER})
	must("token", err)
	_, err = c.Images().AddImage(ctx,
		&holdfastv1.AddImageRequest{Image: &holdfastv1.Image{Name: "debian", Format: holdfastv1.Image_RAW,
			Disk: &holdfastv1.Image_File{Url: "http://127.0.0.1:9/debian.raw", Sha256: hex.EncodeToString(sum[:]),
				SizeBytes: 6}}})
	must("image", err)
	_, err = c.Agents().CreateAgentMachine(ctx, &holdfastv1.CreateAgentMachineRequest{Pool: "gpu", MachineId: "agent-1"})
	must("agent", err)
	_, err = c.Plans().CreatePlan(ctx,
		&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "talk", Steps: []*holdfastv1.Step{
			{Name: "off", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc", ShutdownSeconds: 1}}},
			{Name: "talk", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "echo one; echo two >&2\n"}}}}}})
	must("plan", err)
	_, err = c.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Labels: map[string]string{"env": "prod"}, Spec: &holdfastv1.MachineSpec{Provider: "fake"}}})
	must("machine", err)
	run, err := c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "golden-1", MachineId: "m-1",
		PlanId: "talk"})
	must("run", err)
	ended, err := c.WaitRun(ctx, run.GetRunId())
	must("run", err)
	if ended.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run: got %v", ended)
	}
	register(ctx, t, c, "m-2")
	_, err = c.Machines().SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{MachineId: "m-2",
		Phase: holdfastv1.MachineStatus_MAINTENANCE, Comment: "golden"})
	must("phase", err)
}
