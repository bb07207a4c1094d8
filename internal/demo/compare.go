package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// The effects that are compared: the destructive ones and power-on. The names are those of the fake
// hardware.
const (
	powerOff = "power_off"
	powerOn  = "power_on"
	reboot   = "reboot"   // by the host itself
	poweroff = "poweroff" // by the host itself
	install  = "install"
	wipe     = "wipe"
)

// isPower reports whether an effect changes the power state, through the BMC or by the host.
func isPower(effect string) bool {
	return slices.Contains([]string{powerOff, powerOn, reboot, poweroff}, effect)
}

// need is the number of times that an effect of a recorded attempt must have happened.
type need int

const (
	once      need = iota + 1 // exactly once
	atMostOne                 // once or never: the attempt failed or has not ended
)

// needs returns the effects of a recorded attempt (docs/concepts.md; package executor/step).
// Effects that it does not return must not have happened.
func needs(kind string, a *holdfastv1.Attempt) map[string]need {
	before, after := a.GetEvidenceBefore(), a.GetEvidenceAfter()
	settled := atMostOne
	if a.GetOutcome() == holdfastv1.Attempt_SUCCEEDED {
		settled = once
	}
	switch kind {
	case "reboot":
		switch {
		case before["power"] == "off": // an earlier attempt has turned it off
			return map[string]need{powerOn: settled}
		case before["power"] != "":
			off := settled
			if after["power_off_seen"] != "" {
				off = once
			}
			return map[string]need{powerOff: off, powerOn: settled}
		case before["boot_id"] != "": // the machine has no BMC
			return map[string]need{reboot: settled}
		}
		return map[string]need{powerOff: atMostOne, powerOn: atMostOne, reboot: atMostOne}
	case "power":
		n := map[string]need{}
		off := settled
		if after["power_off_seen"] != "" {
			off = once
		}
		if before["power"] != "off" && before["action"] != "on" {
			n[powerOff] = off
		}
		if before["action"] == "cycle" || before["action"] == "on" && before["power"] != "on" {
			n[powerOn] = settled
		}
		return n
	case "repave":
		return map[string]need{install: settled}
	case "rma":
		n := map[string]need{wipe: atMostOne, powerOff: atMostOne}
		if after["wiped"] != "" {
			n[wipe] = once
		} else if settled == once {
			delete(n, wipe)
		}
		if before["power"] == "off" && n[wipe] == 0 {
			delete(n, powerOff)
		} else if before["power"] == "on" && settled == once {
			n[powerOff] = once
		}
		return n
	case "ssh": // a script may reboot its host
		return map[string]need{reboot: atMostOne, poweroff: atMostOne}
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

func (t *tally) add(o tally) {
	t.Asked += o.Asked
	t.Seen += o.Seen
	t.Duplicated += o.Duplicated
	t.Missing += o.Missing
}

// comparison is the result of comparing the record with the hardware.
type comparison struct {
	Effects  map[string]tally
	Findings []string // the differences, one line each
}

func (c *comparison) count(effect string, t tally) {
	sum := c.Effects[effect]
	sum.add(t)
	c.Effects[effect] = sum
}

// total returns the sum over the effects for which want returns true.
func (c *comparison) total(want func(effect string) bool) tally {
	var sum tally
	for effect, t := range c.Effects {
		if want(effect) {
			sum.add(t)
		}
	}
	return sum
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

// compare compares the effects of the recorded attempts with those that the hardware counted.
func compare(runs []*holdfastv1.Run, effects []fake.Effect) comparison {
	c := comparison{Effects: map[string]tally{}}
	seen := map[attemptEffect]int{}
	for _, e := range effects {
		if e.Destructive || isPower(e.Effect) {
			seen[attemptEffect{e.MachineID, e.RunID, e.Step, e.Attempt, e.Effect}]++
		}
	}
	for _, run := range runs {
		for _, step := range run.GetSteps() {
			for _, a := range step.GetAttempts() {
				for effect, n := range needs(step.GetKind(), a) {
					e := attemptEffect{run.GetMachineId(), run.GetRunId(), step.GetName(), a.GetNumber(), effect}
					c.judge(e, n, seen[e])
					delete(seen, e)
				}
			}
		}
	}
	for e, n := range seen {
		c.count(e.effect, tally{Seen: n, Duplicated: n})
		c.Findings = append(c.Findings, fmt.Sprintf("seen %s, not recorded: %s", times(n), e))
	}
	slices.Sort(c.Findings)
	return c
}

// judge counts an effect of a recorded attempt.
func (c *comparison) judge(e attemptEffect, n need, seen int) {
	t := tally{Seen: seen, Duplicated: max(seen-1, 0)}
	if n == once || seen > 0 {
		t.Asked = 1
	}
	if n == once && seen == 0 {
		t.Missing = 1
		c.Findings = append(c.Findings, fmt.Sprintf("recorded, never seen: %s", e))
	}
	if seen > 1 {
		c.Findings = append(c.Findings, fmt.Sprintf("seen %s: %s", times(seen), e))
	}
	if t != (tally{}) {
		c.count(e.effect, t)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// inOrder returns the counted effects: power first, then disks, then others.
func (c *comparison) inOrder() []string {
	order := []string{powerOff, powerOn, reboot, poweroff, install, wipe}
	rank := func(e string) int {
		if i := slices.Index(order, e); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(c.Effects), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}
