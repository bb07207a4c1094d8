package kinds

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Unknown conditions are shown with their time, and failed ones with their parts.
func TestConditionsAreShown(t *testing.T) {
	now := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	before := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	all := []*holdfastv1.Condition{
		{Type: "BMCReachable", Status: true, Unknown: true, Reason: "NoSecretsKey", LastTransition: before(72 * time.Hour),
			UnknownSince: before(5 * time.Minute), ObservedAt: before(9 * time.Second)},
		{Type: "Degraded", Status: true, Reason: "DiskFailed", Message: "disk 2 failed",
			LastTransition: before(2 * time.Hour), ObservedAt: before(4 * time.Minute)},
	}
	m := &holdfastv1.Machine{MachineId: "m-1", Status: &holdfastv1.MachineStatus{Conditions: all}}
	want := strings.Join([]string{
		"CONDITION      STATUS    REASON         SINCE    OBSERVED   MESSAGE",
		"BMCReachable   Unknown   NoSecretsKey   5m ago   9s ago     -",
		"Degraded       true      DiskFailed     2h ago   4m ago     disk 2 failed",
		"",
	}, "\n")
	if got := ConditionTable(m, now).String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := conditions(all), "BMCReachable=Unknown(NoSecretsKey),Degraded=true(DiskFailed)"; got != want {
		t.Errorf("one line: got %s, want %s", got, want)
	}
}
