package runs

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// TestFilter checks filters that match a run, while their negations do not.
func TestFilter(t *testing.T) {
	run := &holdfastv1.Run{
		RunId: "run-1", MachineId: "m-1", RequestId: "req/1", Type: "NET_RECONFIG", PlanId: "plan/net-reconfig",
		Phase:     holdfastv1.Run_RUNNING,
		Steps:     []*holdfastv1.StepStatus{{Name: "apply", State: holdfastv1.StepStatus_RUNNING, Kind: "net"}},
		CreatedAt: timestamppb.Now(), Params: map[string]string{"image": "x"}, LogBytes: 10,
		Error: &holdfastv1.RunError{Reason: "StepFailed"},
	}
	for _, text := range []string{
		"machine_id=m-1", `run_id="run-1"`, "phase=RUNNING", "type=NET_RECONFIG", "type=net-reconfig",
		`plan_id="plan/net-reconfig"`, "plan_id=plan/net-reconfig",
		"steps.state:RUNNING", "steps.kind:net", "created_at > 2020-01-01T00:00:00Z", "NOT finished_at:*",
		"params.image=x", "log_bytes>=10",
		"error.reason=StepFailed", "cancel_requested_at < 2020-01-01T00:00:00Z OR phase=RUNNING", `request_id = "req/1"`,
	} {
		f, err := request.Filter(runFilter, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		not, err := request.Filter(runFilter, "NOT ("+text+")")
		if err != nil || !f.Match(run) || not.Match(run) {
			t.Errorf("%s does not match, or its negation does (%v)", text, err)
		}
	}
}

// TestFilterNames checks that every name listed in an error can be used.
func TestFilterNames(t *testing.T) {
	for _, name := range runFilter().Names() {
		name = strings.TrimSuffix(name, ".<key>")
		if _, err := request.Filter(runFilter, name+":*"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
