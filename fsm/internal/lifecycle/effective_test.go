package lifecycle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestEffectiveState tries every combination of its inputs (docs/concepts.md).
func TestEffectiveState(t *testing.T) {
	names := holdfastv1.MachineStatus_Phase_name
	for n := range names {
		phase := holdfastv1.MachineStatus_Phase(n)
		for _, run := range []string{"", "run-1"} {
			for _, inCluster := range []string{"unknown", "false", "true"} {
				for _, node := range []holdfastv1.Node_State{holdfastv1.Node_PENDING, holdfastv1.Node_ACTIVE,
					holdfastv1.Node_INSTALL_FAILED} {
					m := &holdfastv1.Machine{Status: &holdfastv1.MachineStatus{Phase: phase, ActiveRunId: run, NodeState: node,
						EffectiveState: holdfastv1.EffectiveState_RMA, Banners: []string{"stored by accident"}}}
					if inCluster != "unknown" {
						m.Status.Conditions = []*holdfastv1.Condition{{Type: "Degraded"},
							{Type: "InCustomerCluster", Status: inCluster == "true"}}
					}
					var want string
					switch { // in the words of the specification
					case run != "":
						want = "PROVISIONING"
					case names[n] == "RMA" || names[n] == "RETIRED" || names[n] == "MAINTENANCE":
						want = names[n]
					case inCluster == "true":
						want = "IN_SERVICE"
					case names[n] == "FACTORY_READY":
						want = "FACTORY_READY"
					default:
						want = "READY"
					}
					got := Derive(m, nil).GetStatus()
					if got.GetEffectiveState().String() != want || got.GetBanners() != nil {
						t.Errorf("phase %s, run %q, in cluster %s: got %s with banners %v, want %s and none", phase, run, inCluster,
							got.GetEffectiveState(), got.GetBanners(), want)
					}
				}
			}
		}
	}
}

func TestBanners(t *testing.T) {
	state := map[string]*holdfastv1.Condition{"-": nil, "f": {Reason: "was"}, "t": {Status: true},
		"r": {Status: true, Reason: "why"}}
	text := map[string]string{"t": "", "r": ": why"}
	for needs, n := range state {
		for degraded, d := range state {
			t.Run(needs+degraded, func(t *testing.T) {
				m := &holdfastv1.Machine{Status: &holdfastv1.MachineStatus{Conditions: []*holdfastv1.Condition{{Type: "Reachable",
					Status: true}}}}
				var want []string
				// Whatever the order of conditions, NeedsIntervention comes first.
				if d != nil {
					m.Status.Conditions = append(m.Status.Conditions, &holdfastv1.Condition{Type: "Degraded", Status: d.GetStatus(),
						Reason: d.GetReason()})
				}
				if n != nil {
					m.Status.Conditions = append(m.Status.Conditions, &holdfastv1.Condition{Type: "NeedsIntervention",
						Status: n.GetStatus(), Reason: n.GetReason()})
				}
				if s, ok := text[needs]; ok {
					want = append(want, "NeedsIntervention"+s)
				}
				if s, ok := text[degraded]; ok {
					want = append(want, "Degraded"+s)
				}
				if diff := cmp.Diff(want, Derive(m, nil).GetStatus().GetBanners()); diff != "" {
					t.Errorf("banners (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestNodeAt tries every pair of phase and node state. The result must not contradict itself.
func TestNodeAt(t *testing.T) {
	for p := range holdfastv1.MachineStatus_Phase_name {
		for n := range holdfastv1.Node_State_name {
			phase, node := holdfastv1.MachineStatus_Phase(p), holdfastv1.Node_State(n)
			got := NodeAt(phase, node)
			at := fmt.Sprintf("%s with %s: got %s", phase, node, got)
			if (phase == holdfastv1.MachineStatus_IN_SERVICE) != (got == holdfastv1.Node_ACTIVE) {
				t.Errorf("%s: active goes with IN_SERVICE and nothing else", at)
			}
			if phase == holdfastv1.MachineStatus_RETIRED && got != holdfastv1.Node_RETIRED {
				t.Errorf("%s: retired goes with RETIRED", at)
			}
			if got == holdfastv1.Node_INSTALLING && phase != holdfastv1.MachineStatus_PROVISIONING {
				t.Errorf("%s: installing implies PROVISIONING", at)
			}
			if got == holdfastv1.Node_INSTALL_FAILED && phase != holdfastv1.MachineStatus_MAINTENANCE {
				t.Errorf("%s: install_failed implies MAINTENANCE", at)
			}
			if again := NodeAt(phase, got); again != got {
				t.Errorf("%s, and then %s: want it to stay", at, again)
			}
			quiet := node == holdfastv1.Node_DISCOVERED || node == holdfastv1.Node_PENDING ||
				node == holdfastv1.Node_INSTALLED ||
				node == holdfastv1.Node_REPROVISION || node == holdfastv1.Node_DEPROVISIONING || node == holdfastv1.Node_MIGRATING
			if quiet && got != node && phase != holdfastv1.MachineStatus_IN_SERVICE &&
				phase != holdfastv1.MachineStatus_RETIRED {
				t.Errorf("%s: want it to stay", at)
			}
		}
	}
}
