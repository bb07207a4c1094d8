package check

import (
	"fmt"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// output checks that the log of a successful command contains all its output, each byte
// once, whichever peers led meanwhile.
func output(_ *workload.History, f *final.Record) []error {
	var errs []error
	want := Printed(workload.TalkScript)
	for _, r := range f.Runs {
		if !workload.Talk(r.GetPlanId()) || r.GetPhase() != holdfastv1.Run_SUCCEEDED {
			continue
		}
		if got := string(f.Stdout[r.GetRunId()]); got != want {
			errs = append(errs, fmt.Errorf("output of run %s has %d bytes, its command printed %d: %s", r.GetRunId(),
				len(got), len(want), difference(got, want)))
		}
	}
	return firstErrors(errs)
}

// Printed returns the output of a script of "seq N" and "sleep D".
func Printed(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		var n int
		if _, err := fmt.Sscanf(line, "seq %d", &n); err == nil {
			for i := range n {
				fmt.Fprintln(&b, i+1)
			}
		}
	}
	return b.String()
}

// difference describes where two texts first differ.
func difference(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	cut := func(s string) string { return s[min(n, len(s)):min(n+20, len(s))] }
	return fmt.Sprintf("from byte %d on %q, want %q", n, cut(got), cut(want))
}
