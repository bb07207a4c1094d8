package describe_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestAttention(t *testing.T) {
	now := time.Unix(1000, 0)
	ready, serving := holdfastv1.MachineStatus_READY, holdfastv1.MachineStatus_IN_SERVICE
	off := func(
		phase holdfastv1.MachineStatus_Phase, reason, message string, i ...*holdfastv1.Issue,
	) *holdfastv1.MachineStatus {
		state := holdfastv1.EffectiveState_Value(holdfastv1.EffectiveState_Value_value[phase.String()])
		return &holdfastv1.MachineStatus{Phase: phase, EffectiveState: state, Power: holdfastv1.PowerState_OFF, Issues: i,
			Conditions: []*holdfastv1.Condition{{Type: "PoweredOn", Reason: reason, Message: message,
				LastTransition: timestamppb.New(now.Add(-43 * time.Second))}}}
	}
	degraded := &holdfastv1.Issue{Type: "Degraded", Reason: "FanFailed"}
	installFailed := &holdfastv1.Issue{Type: "InstallFailed", Reason: "BMC answered 500"}
	intervene := &holdfastv1.Issue{Type: "NeedsIntervention", Reason: "StepFailed: pxe: BMC answered 500"}
	for want, s := range map[string]*holdfastv1.MachineStatus{
		"": {},
		"powered off 43s ago by run-1 (plan/power-off)": off(ready, "ByRun", "run-1 (plan/power-off)"),
		"powered off 43s ago, not by a run, Degraded (FanFailed)": off(serving, "NotByRun", "",
			&holdfastv1.Issue{Type: "PoweredOff"}, degraded),
		"failed at pxe: BMC answered 500":                        {Issues: []*holdfastv1.Issue{installFailed, intervene}},
		"InstallFailed (BMC answered 500), Degraded (FanFailed)": {Issues: []*holdfastv1.Issue{installFailed, degraded}},
		"powered off since it was first polled":                  off(ready, "Observed", ""),
		"failed at join: no answer": {Issues: []*holdfastv1.Issue{
			{Type: "NeedsIntervention", Reason: "StepFailed: join: no answer"}}},
		"Degraded (FanFailed), phase READY": {Phase: ready, EffectiveState: holdfastv1.EffectiveState_IN_SERVICE,
			Issues: []*holdfastv1.Issue{degraded}},
	} {
		if got := describe.Attention(&holdfastv1.Machine{Status: s}, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestIssueText(t *testing.T) {
	for want, i := range map[string]*holdfastv1.Issue{
		"BMC does not answer (RedfishTimeout)":    {Type: "BMCUnreachable", Reason: "RedfishTimeout"},
		"BMC refuses the account (AuthFailed)":    {Type: "BMCUnreachable", Reason: "AuthFailed"},
		"BMC answers, but not usably (BadAnswer)": {Type: "BMCUnreachable", Reason: "BadAnswer"},
		"it is not known whether the BMC answers (ProviderTimeout)": {Type: "BMCUnknown",
			Reason: "ProviderTimeout"},
		"agent sends no heartbeats": {Type: "AgentExpired"},
		"Rusty (since May)":         {Type: "Rusty", Reason: "since May"}, // of a newer peer
	} {
		if got := describe.IssueText(i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
