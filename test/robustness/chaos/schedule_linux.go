package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/test/robustness/fault"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// schedule returns faults in an order that depends on the seed: each one once before any is
// repeated.
type schedule struct {
	faults []fault.Fault
	rng    *rand.Rand
	order  []int
}

// newSchedule omits faults that cannot be injected here, and logs them.
func newSchedule(c *harness.Cluster, faults []fault.Fault, rng *rand.Rand) (*schedule, error) {
	s := &schedule{rng: rng}
	var skipped []string
	for _, f := range faults {
		if why := f.Missing(c); why != "" {
			skipped = append(skipped, f.Name()+" ("+why+")")
			continue
		}
		s.faults = append(s.faults, f)
	}
	if len(skipped) > 0 {
		c.Log.Warn("faults are skipped", "skipped", strings.Join(skipped, ", "))
	}
	if len(s.faults) == 0 {
		return nil, fmt.Errorf("no fault can be injected here: %s", strings.Join(skipped, ", "))
	}
	return s, nil
}

func (s *schedule) next() fault.Fault {
	if len(s.order) == 0 {
		s.order = s.rng.Perm(len(s.faults))
	}
	f := s.faults[s.order[0]]
	s.order = s.order[1:]
	return f
}

// Named returns the faults with the comma-separated names, or all for "".
func Named(names string) ([]fault.Fault, error) {
	if names == "" {
		return fault.All(), nil
	}
	all := append(fault.All(), fault.Parts()...)
	var found []fault.Fault
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(f fault.Fault) bool { return f.Name() == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, f := range all {
				known = append(known, f.Name())
			}
			return nil, fmt.Errorf("unknown fault %q: use one of %s", name, strings.Join(known, ", "))
		}
		found = append(found, all[i])
	}
	return found, nil
}
