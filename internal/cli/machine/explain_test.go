package machine

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestConditionsAreExplained checks the sentences about unknown conditions, with their time, and
// about failed ones, with their parts.
func TestConditionsAreExplained(t *testing.T) {
	now := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	before := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	all := []*holdfastv1.Condition{
		{Type: "BMCReachable", Status: true, Unknown: true, Reason: "NoSecretsKey", LastTransition: before(72 * time.Hour),
			UnknownSince: before(5 * time.Minute), ObservedAt: before(9 * time.Second)},
		{Type: "Degraded", Status: true, Reason: "DiskFailed", Message: "disk 2 failed",
			LastTransition: before(2 * time.Hour), ObservedAt: before(4 * time.Minute)},
	}
	var lines []string
	for _, l := range explanation(&holdfastv1.MachineExplanation{MachineId: "m-1", Conditions: all}, now) {
		lines = append(lines, l.Format(0, false))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"condition     BMCReachable Unknown (NoSecretsKey), for 5m, observed 9s ago",
		"condition     Degraded true (DiskFailed), for 2h, observed 4m ago: disk 2 failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("reason: got\n%s\nwant %q in it", text, want)
		}
	}
}
