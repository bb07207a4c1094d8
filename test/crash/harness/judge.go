package harness

import (
	"fmt"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Judge compares what the fake hardware has seen of a run with the record, and gives what does not
// fit:
//
//   - an effect of an attempt, or of a leader epoch, that is not on record;
//   - a destructive effect that an attempt has done twice;
//   - other effects more often than the attempt had leaders; what is known by the attempt's token,
//     more than once.
func Judge(run *holdfastv1.Run, effects []fake.Effect) []string {
	var found []string
	seen := map[string]int{}
	for _, e := range effects {
		a := attemptOf(run, e.Step, e.Attempt)
		if e.RunID != run.GetRunId() || e.MachineID != run.GetMachineId() || a == nil {
			found = append(found, fmt.Sprintf("effect %+v is of no attempt on record", e))
			continue
		}
		if !slices.Contains(a.GetEpochs(), e.Epoch) {
			found = append(found, fmt.Sprintf("effect %+v comes from epoch %d; on record are %v", e, e.Epoch, a.GetEpochs()))
		}
		// A soft and a hard press are two effects: the second comes when the first did not help.
		what := fmt.Sprintf("%s %s of step %s attempt %d", e.Effect, e.Detail, e.Step, e.Attempt)
		seen[what]++
		most := len(a.GetEpochs())
		if e.Destructive || once(e.Effect) {
			most = 1
		}
		if seen[what] == most+1 {
			found = append(found, fmt.Sprintf("%s was done more than %d times", what, most))
		}
	}
	return found
}

// once reports whether hardware knows the effect by a token, so that a second one is a bug whoever
// did it.
func once(effect string) bool {
	return slices.Contains([]string{"command", "join", "net_apply", "net_confirm", "install", "wipe", "kill"}, effect)
}

func attemptOf(run *holdfastv1.Run, step string, number int32) *holdfastv1.Attempt {
	for _, s := range run.GetSteps() {
		if s.GetName() != step {
			continue
		}
		for _, a := range s.GetAttempts() {
			if a.GetNumber() == number {
				return a
			}
		}
	}
	return nil
}

// JudgeMachine checks that a leader never touched the machine after a later one had
// (docs/reliability.md), and that it never was in two hands at once.
func JudgeMachine(m fake.MachineState, effects []fake.Effect) []string {
	var found []string
	epoch := uint64(0)
	for _, e := range effects {
		if e.Epoch < epoch {
			found = append(found, fmt.Sprintf("effect %+v comes after one of epoch %d", e, epoch))
		}
		epoch = max(epoch, e.Epoch)
	}
	if m.Overlaps > 0 {
		found = append(found, fmt.Sprintf("machine %s had %d effects while another was under way", m.MachineID, m.Overlaps))
	}
	return found
}

// Count counts the effects of a kind.
func Count(effects []fake.Effect, effect string) int {
	n := 0
	for _, e := range effects {
		if e.Effect == effect {
			n++
		}
	}
	return n
}
