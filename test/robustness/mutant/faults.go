package mutant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"

	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// underFault breaks a cluster under traffic with one fault of package fault, which itself
// checks the rule. Its message must match says, so that a failure for another reason does
// not count.
func underFault(name, says string) Scenario {
	complaint := regexp.MustCompile(`.*` + says + `.*`)
	var leases []Patch
	for _, e := range workload.ShortLeaseEdits() {
		leases = append(leases, Patch(e))
	}
	return Scenario{Name: "a round with " + name, Provoke: leases,
		Run: func(ctx context.Context, e Env) ([]error, error) {
			if m := private.Missing(); m != "" {
				return nil, errors.New("no network namespaces here: " + m)
			}
			cmd := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-count=1", "-v", "-run", "^TestChaos$",
				"github.com/holdfast-metal/holdfast/test/robustness")
			cmd.Env = append(os.Environ(), "CHAOS=1", "CHAOS_SEED=1", "CHAOS_COUNT=1", "CHAOS_FAULTS="+name,
				"CHAOS_DIR="+e.Dir,
				"HOLDFAST_TEST_BINARY="+e.Binary, "HOLDFAST_TEST_SHORT_LEASES=1")
			out, err := cmd.CombinedOutput()
			if err == nil {
				return nil, nil
			}
			if found := complaint.Find(out); found != nil {
				return []error{fmt.Errorf("%s: %s", name, found)}, nil
			}
			return nil, fmt.Errorf("it failed, but not because of the broken rule: %w\n%s", err, out)
		}}
}
