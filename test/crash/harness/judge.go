package harness

import (
	"fmt"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Judge compares the fake hardware's effects of a run with the record, and returns the
// violations:
//
//   - an effect of an attempt, or of a leader's epoch, that is not recorded;
//   - a destructive effect that an attempt has done twice;
//   - any other effect more often than the attempt had leaders, or more than once if the hardware
//     identifies it by the attempt's token.
func Judge(run *holdfastv1.Run, effects []fake.Effect) []string {
	var found []string
	seen := map[string]int{}
	for _, e := range effects {
		a := attemptOf(run, e.Step, e.Attempt)
		if e.RunID != run.GetRunId() || e.MachineID != run.GetMachineId() || a == nil {
			found = append(found, fmt.Sprintf("effect %+v is of no recorded attempt", e))
			continue
		}
		if !slices.Contains(a.GetEpochs(), e.Epoch) {
			found = append(found,
				fmt.Sprintf("effect %+v comes from epoch %d; recorded are %v", e, e.Epoch, a.GetEpochs()))
		}
		// A soft and a hard press are two effects: the second one follows if the first did
		// not help.
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

// once reports whether hardware identifies the effect by a token, so that a second one is
// always a bug.
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

// JudgeMachine checks that no leader touched the machine after a later one had
// (docs/reliability.md), and that effects on it never overlapped.
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
		found = append(found,
			fmt.Sprintf("machine %s had %d effects while another one was in progress", m.MachineID, m.Overlaps))
	}
	return found
}

// Count returns the number of effects of a kind.
func Count(effects []fake.Effect, effect string) int {
	n := 0
	for _, e := range effects {
		if e.Effect == effect {
			n++
		}
	}
	return n
}
