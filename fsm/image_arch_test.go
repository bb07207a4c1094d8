package fsm_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestImageArch checks that a run is refused if its image is of another architecture than the
// machine, if both are known.
func TestImageArch(t *testing.T) {
	for _, tt := range []struct {
		name, node, image string
		refused           bool
	}{
		{"the same", "x86_64", "pc", false},
		{"another", "aarch64", "pc", true},
		{"another, the other way", "x86_64", "board", true},
		{"not known of the machine", "", "board", false},
		{"of a machine we have no name for", "riscv64", "pc", false},
		{"an image of a third party", "aarch64", "elsewhere", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, &internalv1.LeaderEstablished{PeerId: "p1", Term: 1})
			do(t, p, &internalv1.PutImage{Image: &holdfastv1.Image{Name: "pc", Disk: imageFile("a")}})
			do(t, p, &internalv1.PutImage{Image: &holdfastv1.Image{Name: "board", Arch: "arm64", Disk: imageFile("b")}})
			do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "plan/install",
				Steps: []*holdfastv1.Step{{Name: "s", TimeoutSeconds: 60,
					Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}})
			do(t, p, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "02:00:00:00:00:01"})
			if tt.node != "" { // as its agent reports it: operators may set fewer words
				do(t, p, &internalv1.ReportNode{Report: &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:01",
					Facts: &holdfastv1.NodeRecord{Arch: tt.node}}})
			}
			start := &internalv1.StartRun{RunId: "run-0001", MachineId: "m-1", RequestId: "r", PlanId: "plan/install",
				DefaultTimeoutSeconds: 60, Params: map[string]string{"image": tt.image}}
			if tt.refused {
				refused(t, p, start, fsm.FailedPrecondition, fsm.ReasonImageArch)
			} else {
				do(t, p, start)
			}
		})
	}
}
