package fleet

import (
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// TestFilter checks filters that match a machine, while their negations do not.
func TestFilter(t *testing.T) {
	m := &holdfastv1.Machine{
		MachineId: "m-1", Labels: map[string]string{"rack": "r7"},
		Spec: &holdfastv1.MachineSpec{
			SshEndpoint: "10.0.0.2:22", BmcEndpoint: "10.0.0.3", TargetClusterRef: "c-a",
			MacAddresses: []string{"aa:bb:cc:dd:ee:ff"},
			Provider:     "dc-1", Pool: "gpu", Location: "fra", Rack: "r7", Serial: "S1", CustomerId: "acme",
		},
		Status: &holdfastv1.MachineStatus{
			Phase: holdfastv1.MachineStatus_IN_SERVICE, EffectiveState: holdfastv1.EffectiveState_IN_SERVICE,
			ActiveRunId: "run-1",
			NodeState:   holdfastv1.Node_ACTIVE, AgentState: holdfastv1.Agent_READY, Banners: []string{"Degraded: FanFailed"},
			Conditions: []*holdfastv1.Condition{{Type: "Reachable", Status: true}},
		},
	}
	for _, text := range []string{
		"phase=IN_SERVICE", `phase = IN_SERVICE AND labels.rack = "r7"`, "machine_id=m-1", "effective_state=in_service",
		"active_run_id=run-1",
		"node_state=active", "agent_state=READY", "provider=dc-1", "pool=gpu", "rack=r7", "location=fra", "serial=S1",
		"customer_id=acme",
		"target_cluster_ref=c-a", "bmc_endpoint=10.0.0.3", "ssh_endpoint=10.0.0.2:22", "mac_addresses:aa:bb:cc:dd:ee:ff",
		`mac_addresses:"AA-BB-CC-DD-EE-FF"`, "conditions.Reachable = true", "banners:Degraded*", "spec.rack:r7",
		"status.phase:IN_SERVICE", `labels:"rack"`, `labels."rack":*`, `labels."row" != "x"`, `NOT labels."row":*`,
		`(labels."rack" = "r7" OR labels."rack" = "r8")`,
	} {
		f, err := request.Filter(machineFilter, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		not, err := request.Filter(machineFilter, "NOT ("+text+")")
		if err != nil || !f.Match(m) || not.Match(m) {
			t.Errorf("%s does not match, or its negation does (%v)", text, err)
		}
	}
}

// TestFilterNames checks that every name listed in an error can be used.
func TestFilterNames(t *testing.T) {
	for _, name := range machineFilter().Names() {
		name = strings.ReplaceAll(strings.TrimSuffix(name, ".<key>"), "<type>", "Reachable")
		if _, err := request.Filter(machineFilter, name+":*"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
