package display

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestIssues(t *testing.T) {
	issue := func(kind, reason string) *holdfastv1.Issue { return &holdfastv1.Issue{Type: kind, Reason: reason} }
	for _, tt := range []struct {
		summary, lastError string
		issues             []*holdfastv1.Issue
		want               []string
	}{
		{"idle", "", nil, nil},
		{"powered off 3s ago", "", []*holdfastv1.Issue{issue("PoweredOff", ""), issue("NotInCluster", "Gone")},
			[]string{"NotInCluster (Gone)"}},
		{"repave at join", "", []*holdfastv1.Issue{issue("PoweredOff", "")}, []string{"PoweredOff"}},
		{"repave failed at join", "no answer", []*holdfastv1.Issue{issue("NeedsIntervention", "StepFailed: join: no answer")},
			nil},
		{"waits for an operator", "", []*holdfastv1.Issue{issue("NeedsIntervention", "AuthFailed")},
			[]string{"NeedsIntervention (AuthFailed)"}},
		{"Degraded (DiskFailed)", "", []*holdfastv1.Issue{issue("Degraded", "DiskFailed")}, []string{"slot 3"}},
		{"Unreachable (PingFailed)", "", []*holdfastv1.Issue{issue("Unreachable", "PingFailed")}, nil},
		{"idle", "", []*holdfastv1.Issue{issue("Degraded", "DiskFailed")}, []string{"Degraded (DiskFailed): slot 3"}},
	} {
		m := &holdfastv1.Machine{Status: &holdfastv1.MachineStatus{Issues: tt.issues,
			Conditions: []*holdfastv1.Condition{{Type: "Degraded", Message: "slot 3"}}}}
		got := Issues(m, &holdfastv1.MachineExplanation{Summary: tt.summary, LastError: tt.lastError})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, %v (-want +got):\n%s", tt.summary, tt.issues, diff)
		}
	}
}

// TestTimeouts checks that timeouts are shown without units of zero.
func TestTimeouts(t *testing.T) {
	for seconds, want := range map[int32]string{0: "default", 9: "9s", 90: "1m30s", 900: "15m", 3600: "1h", 5400: "1h30m",
		48 * 3600: "2d"} {
		p := &holdfastv1.Plan{Steps: []*holdfastv1.Step{{TimeoutSeconds: seconds}}}
		if got := PlanSteps(p, nil)[0].Timeout; got != want {
			t.Errorf("%d s: got %s, want %s", seconds, got, want)
		}
	}
}
