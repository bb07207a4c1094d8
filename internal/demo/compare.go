package demo

import (
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// The effects of the plan that are compared, as the fake hardware calls them: power-on and those
// that are destructive.
const (
	powerOff = "power_off"
	powerOn  = "power_on"
	install  = "install"
)

// effectsOf returns the effects that a recorded attempt of the plan may have had, by the kind of
// its step (docs/concepts.md; package executor/step): true if it must have happened, exactly once,
// and false if the record leaves that open.
func effectsOf(kind string, a *holdfastv1.Attempt) map[string]bool {
	succeeded := a.GetOutcome() == holdfastv1.Attempt_SUCCEEDED
	switch {
	case kind == "repave":
		return map[string]bool{install: succeeded}
	case kind == "reboot" && a.GetEvidenceBefore()["power"] == "off": // an earlier attempt has turned it off
		return map[string]bool{powerOn: succeeded}
	case kind == "reboot":
		return map[string]bool{powerOff: succeeded || a.GetEvidenceAfter()["power_off_seen"] != "", powerOn: succeeded}
	}
	return nil
}

// tally counts one effect over all attempts.
type tally struct {
	Asked      int `json:"asked"`      // by the record; an effect that it leaves open counts if it was seen
	Seen       int `json:"seen"`       // by the hardware
	Duplicated int `json:"duplicated"` // seen more often than asked, or not recorded
	Missing    int `json:"missing"`    // asked and not seen
}

// attemptEffect is an effect of one attempt.
type attemptEffect struct {
	machine, run, step string
	attempt            int32
	effect             string
}

func (e attemptEffect) String() string {
	return fmt.Sprintf("%s of %s by attempt %d of step %s of run %s", e.effect, e.machine, e.attempt, e.step, e.run)
}

// compare compares the effects of the recorded attempts with those that the hardware counted. It
// returns the sums for each effect, and the differences, one line each.
func compare(runs []*holdfastv1.Run, effects []fake.Effect) (sums map[string]tally, findings []string) {
	recorded, seen, sums := map[attemptEffect]bool{}, map[attemptEffect]int{}, map[string]tally{}
	for _, run := range runs {
		for _, step := range run.GetSteps() {
			for _, a := range step.GetAttempts() {
				for effect, certain := range effectsOf(step.GetKind(), a) {
					e := attemptEffect{run.GetMachineId(), run.GetRunId(), step.GetName(), a.GetNumber(), effect}
					recorded[e], seen[e] = certain, 0
				}
			}
		}
	}
	for _, e := range effects {
		if e.Destructive || e.Effect == powerOn {
			seen[attemptEffect{e.MachineID, e.RunID, e.Step, e.Attempt, e.Effect}]++
		}
	}
	for e, n := range seen {
		certain, known := recorded[e]
		if n == 0 && !certain {
			continue
		}
		asked := 1
		switch {
		case n == 0:
			findings = append(findings, fmt.Sprintf("recorded, never seen: %s", e))
		case !known:
			asked = 0
			findings = append(findings, fmt.Sprintf("seen %s, not recorded: %s", describe.Number(n, "time"), e))
		case n > 1:
			findings = append(findings, fmt.Sprintf("seen %s: %s", describe.Number(n, "time"), e))
		}
		sum := sums[e.effect]
		sum.Asked += asked
		sum.Seen += n
		sum.Duplicated += max(n-asked, 0)
		sum.Missing += max(asked-n, 0)
		sums[e.effect] = sum
	}
	slices.Sort(findings)
	return sums, findings
}
