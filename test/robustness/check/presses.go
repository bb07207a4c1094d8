package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// presses compares the presses that each BMC received with the recorded attempts, in order.
// A BMC does not know whose press it is, but runs of a machine do not overlap. So the
// presses must be those of one attempt after the other:
//
//   - an attempt that succeeded under one leader, after another such attempt, pressed what its
//     evidence requires, once each: off if the power was on, on if it was off;
//   - any other attempt turned the power off at most once and on at most once, however many leaders
//     it had, because the next leader observes the effect of an earlier press.
//
// A press that the BMC accepted and ignored counts separately: at most one for each leader.
func presses(h *workload.History, f *final.Record) []error {
	if h.Real == nil {
		return nil
	}
	var errs []error
	for i, id := range h.Real.BMCs {
		seen, pattern, words := letters(f.SeenOf(i)), strings.Builder{}, []string{}
		quiet := true // no earlier press can take effect late
		for _, t := range triesOf(f.Runs, id) {
			p := t.pattern(quiet)
			pattern.WriteString(p)
			words = append(words, fmt.Sprintf("%s/%s/%d %s", t.run.GetRunId(), t.step, t.attempt.GetNumber(), p))
			quiet = t.attempt.GetOutcome() == holdfastv1.Attempt_SUCCEEDED
		}
		should, err := regexp.Compile("^" + pattern.String() + "$")
		if err != nil {
			errs = append(errs, fmt.Errorf("describe the presses of %s: %w", id, err))
		} else if !should.MatchString(seen) {
			errs = append(errs, fmt.Errorf("the BMC of %s received the presses %s "+
				"(F off, N on; f and n were ignored), which are not those of its attempts, in order: %s",
				id, seen, strings.Join(words, ", ")))
		}
	}
	return firstErrors(errs)
}

// letters returns the presses that a BMC received, one letter each.
func letters(seen control.Seen) string {
	var b strings.Builder
	for _, e := range seen.Effects {
		if e.Name != "reset" {
			continue
		}
		letter, known := map[string]string{"ForceOff": "F", "On": "N"}[e.Detail]
		switch {
		case !known:
			letter = "X" // no attempt presses this button
		case e.Ignored:
			letter = strings.ToLower(letter)
		}
		b.WriteString(letter)
	}
	return b.String()
}

// try is an attempt that may press.
type try struct {
	run     *holdfastv1.Run
	step    string
	action  string // on, off or cycle
	attempt *holdfastv1.Attempt
}

// triesOf returns the attempts on a machine that may press, in order: runs do not overlap,
// so the later one changed last.
func triesOf(all []*holdfastv1.Run, machine string) []try {
	runs := slices.DeleteFunc(slices.Clone(all), func(r *holdfastv1.Run) bool { return r.GetMachineId() != machine })
	slices.SortFunc(runs, func(a, b *holdfastv1.Run) int { return cmp.Compare(a.GetRevision(), b.GetRevision()) })
	var tries []try
	for _, r := range runs {
		for _, s := range r.GetSteps() {
			action, may := workload.Presses(r.GetPlanId(), s.GetName())
			for _, a := range s.GetAttempts() {
				if may {
					tries = append(tries, try{r, s.GetName(), action, a})
				}
			}
		}
	}
	return tries
}

// pattern returns the allowed presses of the attempt, as a regular expression.
func (t try) pattern(quiet bool) string {
	off, on := t.action != "on", t.action != "off"
	leaders := len(t.attempt.GetEpochs())
	if quiet && leaders == 1 && t.attempt.GetOutcome() == holdfastv1.Attempt_SUCCEEDED {
		p, was := "", t.attempt.GetEvidenceBefore()["power"]
		if off && was == "on" {
			p = "F"
		}
		if on && (was == "off" || p == "F") {
			p += "N"
		}
		return p
	}
	p := ""
	if off {
		p = fmt.Sprintf("(?:f{0,%d}|f{0,%d}F)", leaders, leaders-1)
	}
	if on {
		p += fmt.Sprintf("(?:n{0,%d}|n{0,%d}N)", leaders, leaders-1)
	}
	return p
}
