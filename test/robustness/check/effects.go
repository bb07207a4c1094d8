package check

import (
	"fmt"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// effects compares the fake hardware's effects with the record. Each one is of a recorded
// attempt and epoch. An effect that is destructive, or has a token, happens once for an
// attempt; any other happens at most once for each leader that worked on it.
func effects(_ *workload.History, f *final.Record) []error {
	var errs []error
	type key struct {
		run, step, effect, detail string
		attempt                   int32
	}
	seen := map[key]int{}
	runs := map[string]*holdfastv1.Run{}
	for _, r := range f.Runs {
		runs[r.GetRunId()] = r
	}
	for _, e := range f.Effects {
		run := runs[e.RunID]
		a := attemptOf(run, e)
		if a == nil || run.GetMachineId() != e.MachineID {
			errs = append(errs, fmt.Errorf("%s belongs to no recorded attempt", effectWords(e)))
			continue
		}
		if !slices.Contains(a.GetEpochs(), e.Epoch) {
			errs = append(errs, fmt.Errorf("%s: recorded are the epochs %v", effectWords(e), a.GetEpochs()))
		}
		// A soft and a hard press are two effects: the second one follows if the first did
		// not help.
		k := key{e.RunID, e.Step, e.Effect, e.Detail, e.Attempt}
		seen[k]++
		most := len(a.GetEpochs())
		if e.Destructive || byToken(e.Effect) {
			most = 1
		}
		if seen[k] == most+1 {
			errs = append(errs,
				fmt.Errorf("%s: it has happened more than %d times for this attempt", effectWords(e), most))
		}
	}
	return firstErrors(errs)
}

// byToken reports whether hardware identifies the effect by a token, so that a second one
// is always a bug.
func byToken(effect string) bool {
	return slices.Contains([]string{"command", "join", "net_apply", "net_confirm", "install", "wipe", "kill"}, effect)
}

func attemptOf(run *holdfastv1.Run, e fake.Effect) *holdfastv1.Attempt {
	for _, s := range run.GetSteps() {
		if s.GetName() != e.Step {
			continue
		}
		for _, a := range s.GetAttempts() {
			if a.GetNumber() == e.Attempt {
				return a
			}
		}
	}
	return nil
}

func effectWords(e fake.Effect) string {
	return fmt.Sprintf("effect %d, %s %s on %s by run %s step %s attempt %d in epoch %d", e.Seq, e.Effect, e.Detail,
		e.MachineID, e.RunID, e.Step, e.Attempt, e.Epoch)
}
