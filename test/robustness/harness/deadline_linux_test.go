package harness

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestEndedEarly(t *testing.T) {
	for name, tt := range map[string]struct {
		err, class string
		early      bool
	}{
		"in time":              {"gave up after 20.001s waiting for power off", "timeout", false},
		"began a moment later": {"gave up after 18.5s waiting for power off", "timeout", false},
		"early":                {"gave up after 412ms waiting for power off: late", "timeout", true},
		"another reason":       {"exit status 1", "command", false},
		"no time":              {"gave up after a while", "timeout", true},
	} {
		err := endedEarly(&holdfastv1.StepStatus{TimeoutSeconds: 20},
			&holdfastv1.Attempt{Error: tt.err, ErrorClass: tt.class})
		if (err != nil) != tt.early {
			t.Errorf("%s: got %v, want an error: %t", name, err, tt.early)
		}
	}
}
