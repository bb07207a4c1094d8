package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// Faults are the faults of a machine. Operations have the names of Operations; "*" is all of them.
type Faults struct {
	Latency   Duration `json:"latency"`    // before the operation; an effect happens even without its caller
	Fail      float64  `json:"fail"`       // probability of an error without the effect
	FailAfter float64  `json:"fail_after"` // probability of an error after the effect
	Hang      []string `json:"hang"`       // operations that do nothing and never return
	Lie       []string `json:"lie"`        // effects that return OK without happening
	Flap      Duration `json:"flap"`       // host and BMC alternate between answering and not, for that long each
	Auth      bool     `json:"auth"`       // the BMC refuses our credentials
	Gone      bool     `json:"gone"`       // the machine and its BMC no longer exist
	// Broken are the failed parts of the hardware, by kind of problem (providers.Kind), e.g.
	// DiskFailed: disk 2 failed. They show in every reading of the health, whatever OnlyFirst is.
	Broken map[providers.Kind]string `json:"broken,omitempty"`
	// OnlyFirst limits the faults to the first N calls of an operation since the faults were set; 0
	// is no limit.
	OnlyFirst int `json:"only_first"`
}

func (f Faults) clone() Faults {
	f.Hang, f.Lie, f.Broken = slices.Clone(f.Hang), slices.Clone(f.Lie), maps.Clone(f.Broken)
	return f
}

func (f Faults) validate() error {
	if !probability(f.Fail) || !probability(f.FailAfter) {
		return fmt.Errorf("fail is %v, fail_after %v: want probabilities from 0 to 1", f.Fail, f.FailAfter)
	}
	if f.Latency < 0 || f.Flap < 0 || f.OnlyFirst < 0 {
		return fmt.Errorf("latency %v, flap %v, only_first %d: none may be negative",
			time.Duration(f.Latency), time.Duration(f.Flap), f.OnlyFirst)
	}
	for kind, text := range f.Broken {
		if kind == "" || text == "" {
			return fmt.Errorf("broken has %q: %q, want a kind such as %s and the broken part",
				kind, text, providers.DiskFailed)
		}
	}
	if err := checkNames("hang", f.Hang, Operations(false)); err != nil {
		return err
	}
	return checkNames("lie", f.Lie, Operations(true))
}

// probability reports whether p is a probability. It returns false for NaN.
func probability(p float64) bool { return p >= 0 && p <= 1 }

func checkNames(key string, list, known []string) error {
	for _, n := range list {
		if n != "*" && !slices.Contains(known, n) {
			return fmt.Errorf("%s has %q: it allows \"*\" and %s", key, n, strings.Join(known, ", "))
		}
	}
	return nil
}

// strike has the effects of the faults on one call.
type strike struct {
	latency                                      time.Duration
	gone, auth, down, hang, fail, lie, failAfter bool
}

// decide returns the effects of the faults on call number n (from 1) of an operation on a machine.
// It depends on its arguments only, so that a failed test can be repeated.
func (f Faults) decide(seed uint64, machine string, o operation, n int, age time.Duration) strike {
	if f.OnlyFirst > 0 && n > f.OnlyFirst {
		return strike{}
	}
	s := strike{
		latency: time.Duration(f.Latency),
		gone:    f.Gone,
		auth:    f.Auth,
		down:    f.Flap > 0 && (age/time.Duration(f.Flap))%2 == 1,
		hang:    names(f.Hang, o.name),
	}
	if o.effect {
		s.lie = names(f.Lie, o.name)
		s.fail = chance(f.Fail, seed, machine, o.name, n, "fail")
		s.failAfter = chance(f.FailAfter, seed, machine, o.name, n, "fail_after")
	}
	return s
}

func names(list []string, op string) bool {
	return slices.Contains(list, op) || slices.Contains(list, "*")
}

// chance returns true with probability p, and the same result for the same arguments.
func chance(p float64, seed uint64, machine, op string, n int, salt string) bool {
	if p <= 0 {
		return false
	}
	h := xxhash.Sum64String(fmt.Sprintf("%d\x00%s\x00%s\x00%d\x00%s", seed, machine, op, n, salt))
	return float64(h>>11)/(1<<53) < p
}
