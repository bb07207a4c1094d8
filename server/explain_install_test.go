package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestExplainInstall checks the explanation of an observed install: its deadline while it
// waits for its installer, and the reason after it has failed.
func TestExplainInstall(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	why := func() *holdfastv1.MachineExplanation {
		t.Helper()
		e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: "n-1"})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	n.Do(t, &internalv1.CreateNode{MachineId: "n-1", MacAddress: macA})
	n.Do(t, &internalv1.TransitionNode{Id: "n-1", State: holdfastv1.Node_PENDING})
	n.Do(t, &internalv1.ReportNode{RunId: "run-1", Report: &holdfastv1.ReportNodeRequest{MacAddress: macA,
		InstallationStatus: "started"}})
	e := why()
	if want := n.Peer.Now.Add(2 * time.Hour); e.GetWait().GetSentence() != "the installer's reports" ||
		!e.GetDeadline().AsTime().Equal(want) || !e.GetNextActionAt().AsTime().Equal(want) {
		t.Errorf("got %v, want the deadline %v", e, want)
	}
	n.Do(t, &internalv1.ExpireLeases{ClockMs: 7_200_000,
		Leases: []*internalv1.LeaseRef{{Kind: internalv1.LeaseRef_INSTALL, Id: "run-1", Generation: 1}}})
	e = why()
	if !strings.Contains(e.GetSummary(),
		"repave failed at install: its installer has not reported for 2h0m0s") ||
		e.GetDeadline() != nil ||
		!slices.Contains(e.GetSuggestions(), "holdfast node state n-1 pending --force") {
		t.Errorf("got %v", e)
	}
}

// TestExplainRefusedBoot checks that the explanation of a machine whose boot script was refused
// names the caller's address, the reason and the remedy, while it waits and after the run has
// failed.
func TestExplainRefusedBoot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		caller *holdfastv1.InstallCaller
		want   []string
	}{
		{"an undeclared network", &holdfastv1.InstallCaller{Address: "192.0.2.1"},
			[]string{"192.0.2.1", "no neighbor", "--netboot-routed"}},
		{"a network card that is not recorded", &holdfastv1.InstallCaller{Address: "192.0.2.2",
			LinkAddress: "52:54:00:66:66:66"}, []string{"192.0.2.2", "52:54:00:66:66:66", "machine update --mac"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			_, c := serve(t, n, Config{})
			n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{MacAddresses: []string{macA}}}})
			file := &holdfastv1.Image_File{Url: "http://i.example/a", Sha256: strings.Repeat("a", 64), SizeBytes: 7}
			n.Do(t, &internalv1.PutImage{Image: &holdfastv1.Image{Name: "installer", Kernel: file, Initrd: file}})
			n.Do(t, &internalv1.PutImage{Image: &holdfastv1.Image{Name: "debian", Disk: file}})
			n.Do(t, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "install", Steps: []*holdfastv1.Step{
				{Name: "repave", TimeoutSeconds: 600,
					Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}}}}})
			n.Do(t, &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "1", PlanId: "install",
				DefaultTimeoutSeconds: 600})
			n.Do(t, &internalv1.BeginAttempt{RunId: "run-1", Step: "repave", Attempt: 1})
			n.Do(t, &internalv1.OpenInstall{RunId: "run-1", Step: "repave", Attempt: 1, Image: "debian", Disk: "by=smallest"})
			why := func(when string) {
				t.Helper()
				e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: "m-1"})
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range tt.want {
					if !strings.Contains(e.GetLastError(), want) {
						t.Errorf("%s: got %q, want %q in it", when, e.GetLastError(), want)
					}
				}
			}
			if _, err := holdfastv1.NewInstallServiceClient(c.conn).BootMachine(testCtx(t),
				&holdfastv1.BootMachineRequest{Mac: macA, Arch: "x86_64", Caller: tt.caller}); err != nil {
				t.Fatal(err)
			}
			why("while it waits")
			n.Do(t, &internalv1.EndAttempt{RunId: "run-1", Step: "repave", Attempt: 1, Outcome: holdfastv1.Attempt_FAILED,
				Error: "the installer has not reported"})
			why("after the attempt")
		})
	}
}
