package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

func TestFilters(t *testing.T) {
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
	run := &holdfastv1.Run{
		RunId: "run-1", MachineId: "m-1", RequestId: "req/1", Type: "NET_RECONFIG", PlanId: "plan/net-reconfig",
		Phase:     holdfastv1.Run_RUNNING,
		Steps:     []*holdfastv1.StepStatus{{Name: "apply", State: holdfastv1.StepStatus_RUNNING, Kind: "net"}},
		CreatedAt: timestamppb.Now(), Params: map[string]string{"image": "x"}, LogBytes: 10,
		Error: &holdfastv1.RunError{Reason: "StepFailed"},
	}
	for _, tt := range []struct {
		schema func() *filter.Schema
		m      proto.Message
		all    []string // each matches, and its negation does not
	}{
		{machineFilter, m, []string{
			"phase=IN_SERVICE", `phase = IN_SERVICE AND labels.rack = "r7"`, "machine_id=m-1", "effective_state=in_service",
			"active_run_id=run-1",
			"node_state=active", "agent_state=READY", "provider=dc-1", "pool=gpu", "rack=r7", "location=fra", "serial=S1",
			"customer_id=acme",
			"target_cluster_ref=c-a", "bmc_endpoint=10.0.0.3", "ssh_endpoint=10.0.0.2:22", "mac_addresses:aa:bb:cc:dd:ee:ff",
			`mac_addresses:"AA-BB-CC-DD-EE-FF"`, "conditions.Reachable = true", "banners:Degraded*", "spec.rack:r7",
			"status.phase:IN_SERVICE", `labels:"rack"`,
		}},
		{runFilter, run, []string{
			"machine_id=m-1", `run_id="run-1"`, "phase=RUNNING", "type=NET_RECONFIG", "type=net-reconfig",
			`plan_id="plan/net-reconfig"`, "plan_id=plan/net-reconfig",
			"steps.state:RUNNING", "steps.kind:net", "created_at > 2020-01-01T00:00:00Z", "NOT finished_at:*",
			"params.image=x", "log_bytes>=10",
			"error.reason=StepFailed", "cancel_requested_at < 2020-01-01T00:00:00Z OR phase=RUNNING", `request_id = "req/1"`,
		}},
	} {
		for _, text := range tt.all {
			f, err := request.Filter(tt.schema, text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			not, err := request.Filter(tt.schema, "NOT ("+text+")")
			if err != nil || !f.Match(tt.m) || not.Match(tt.m) {
				t.Errorf("%s does not match, or its negation does (%v)", text, err)
			}
		}
	}
}

// TestFilterNames checks that every name listed in an error can be used.
func TestFilterNames(t *testing.T) {
	for _, schema := range []func() *filter.Schema{machineFilter, runFilter} {
		for _, name := range schema().Names() {
			name = strings.ReplaceAll(strings.TrimSuffix(name, ".<key>"), "<type>", "Reachable")
			if _, err := request.Filter(schema, name+":*"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
