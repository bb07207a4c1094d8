package check

import (
	"fmt"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// starts compares the commands that began on the host with the record. Each one is of an
// attempt, none began twice, and the command of a successful attempt began once. Its output
// is recorded in full, each line once; of a killed command, the beginning is recorded.
func starts(h *workload.History, f *final.Record) []error {
	if h.Real == nil || len(h.Real.Hosts) == 0 {
		return nil
	}
	var errs []error
	begun := map[string]int{}
	for line := range strings.Lines(f.Starts) {
		begun[strings.TrimSuffix(strings.TrimSpace(line), ";")]++
	}
	if len(begun) == 0 {
		errs = append(errs, fmt.Errorf("no command was started on the host"))
	}
	for _, r := range f.Runs {
		if r.GetPlanId() != workload.HostPlan {
			continue
		}
		for _, s := range r.GetSteps() {
			for _, a := range s.GetAttempts() {
				token := providers.Op{RunID: r.GetRunId(), Step: s.GetName(), Attempt: a.GetNumber()}.Token()
				n := begun[token]
				delete(begun, token)
				if n > 1 || n == 0 && a.GetOutcome() == holdfastv1.Attempt_SUCCEEDED {
					errs = append(errs,
						fmt.Errorf("the command of attempt %s, which is %s, was started %d times on the host, "+
							"by leaders %v", token, a.GetOutcome(), n, a.GetEpochs()))
				}
			}
		}
		stdout, stderr := workload.HostOutput()
		for _, o := range []struct{ stream, got, want string }{
			{"stdout", string(f.Stdout[r.GetRunId()]), stdout},
			{"stderr", string(f.Stderr[r.GetRunId()]), stderr},
		} {
			whole := r.GetPhase() == holdfastv1.Run_SUCCEEDED
			if whole && o.got != o.want || !strings.HasPrefix(o.want, o.got) {
				errs = append(errs, fmt.Errorf("%s of run %s, which is %s, has %d bytes, the command prints %d: %s",
					o.stream, r.GetRunId(), r.GetPhase(), len(o.got), len(o.want), difference(o.got, o.want)))
			}
		}
	}
	for token, n := range begun {
		errs = append(errs,
			fmt.Errorf("a command was started on the host %d times as %q, which is no recorded attempt", n, token))
	}
	return firstErrors(errs)
}
