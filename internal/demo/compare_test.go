package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

const (
	succeeded = holdfastv1.Attempt_SUCCEEDED
	failed    = holdfastv1.Attempt_FAILED
	canceled  = holdfastv1.Attempt_CANCELED
	pending   = holdfastv1.Attempt_OUTCOME_UNSPECIFIED
)

// try returns a recorded attempt.
func try(o holdfastv1.Attempt_Outcome, evidence ...map[string]string) *holdfastv1.Attempt {
	a := &holdfastv1.Attempt{Outcome: o, Epochs: []uint64{1}}
	if len(evidence) > 0 {
		a.EvidenceBefore = evidence[0]
	}
	if len(evidence) > 1 {
		a.EvidenceAfter = evidence[1]
	}
	return a
}

// one returns the record of run r-1 of m-01 with one step "s" of a kind.
func one(kind string, attempts ...*holdfastv1.Attempt) []*holdfastv1.Run {
	for i, a := range attempts {
		a.Number = int32(i + 1)
	}
	return []*holdfastv1.Run{{RunId: "r-1", MachineId: "m-01", Phase: holdfastv1.Run_SUCCEEDED,
		Steps: []*holdfastv1.StepStatus{{Name: "s", Kind: kind, Attempts: attempts}}}}
}

// saw returns the effects of that step on the hardware, written "attempt effect".
func saw(effects ...string) []fake.Effect {
	var all []fake.Effect
	for _, e := range effects {
		attempt, name, _ := strings.Cut(e, " ")
		all = append(all, fake.Effect{MachineID: "m-01", RunID: "r-1", Step: "s", Attempt: int32(attempt[0] - '0'),
			Effect:      name,
			Destructive: name != powerOn && name != "boot_device" && name != "join"})
	}
	return all
}

func TestCompare(t *testing.T) {
	on, off := map[string]string{"power": "on", "boot_id": "b"}, map[string]string{"power": "off"}
	doing := func(action, power string) map[string]string {
		return map[string]string{"action": action, "power": power}
	}
	offSeen := map[string]string{"power_off_seen": "12:00"}
	const of = " of m-01 by attempt 1 of step s of run r-1"
	tests := []struct {
		name     string
		runs     []*holdfastv1.Run
		effects  []fake.Effect
		want     map[string]tally
		findings []string
	}{
		{"nothing", nil, nil, map[string]tally{}, nil},
		{"reboot", one("reboot", try(succeeded, on)), saw("1 power_off", "1 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}, powerOn: {Asked: 1, Seen: 1}}, nil},
		{"pressed twice", one("reboot", try(succeeded, on)), saw("1 power_off", "1 power_off", "1 power_off", "1 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 3, Duplicated: 2}, powerOn: {Asked: 1, Seen: 1}},
			[]string{"seen 3 times: power_off" + of}},
		{"never pressed", one("reboot", try(succeeded, on)), saw("1 power_on"),
			map[string]tally{powerOff: {Asked: 1, Missing: 1}, powerOn: {Asked: 1, Seen: 1}},
			[]string{"recorded, never seen: power_off" + of}},
		{"turned on twice", one("reboot", try(succeeded, on)), saw("1 power_off", "1 power_on", "1 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}, powerOn: {Asked: 1, Seen: 2, Duplicated: 1}},
			[]string{"seen 2 times: power_on" + of}},
		{"failed before it pressed", one("reboot", try(failed, on), try(succeeded, on)), saw("2 power_off", "2 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}, powerOn: {Asked: 1, Seen: 1}}, nil},
		{"failed after it pressed", one("reboot", try(failed, on), try(succeeded, off)), saw("1 power_off", "2 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}, powerOn: {Asked: 1, Seen: 1}}, nil},
		{"failed after a press, then pressed again", one("reboot", try(failed, on), try(succeeded, off)),
			saw("1 power_off", "2 power_off", "2 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 2, Duplicated: 1}, powerOn: {Asked: 1, Seen: 1}},
			[]string{"seen once, not recorded: power_off of m-01 by attempt 2 of step s of run r-1"}},
		{"failed, but observed off", one("reboot", try(failed, on, offSeen)), nil,
			map[string]tally{powerOff: {Asked: 1, Missing: 1}}, []string{"recorded, never seen: power_off" + of}},
		{"failed and pressed twice", one("reboot", try(failed, on)), saw("1 power_off", "1 power_off"),
			map[string]tally{powerOff: {Asked: 1, Seen: 2, Duplicated: 1}}, []string{"seen 2 times: power_off" + of}},
		{"canceled on the way", one("reboot", try(canceled, on)), saw("1 power_off"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}}, nil},
		{"still at it", one("reboot", try(pending, on)), nil, map[string]tally{}, nil},
		{"failed at the first poll", one("reboot", try(failed)), nil, map[string]tally{}, nil},
		{"reboot from within", one("reboot", try(succeeded, map[string]string{"boot_id": "b"})), saw("1 reboot"),
			map[string]tally{reboot: {Asked: 1, Seen: 1}}, nil},
		{"power off", one("power", try(succeeded, doing("off", "on"))), saw("1 power_off"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}}, nil},
		{"power off while off", one("power", try(succeeded, doing("off", "off"))), saw("1 power_off"),
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}}, []string{"seen once, not recorded: power_off" + of}},
		{"power on", one("power", try(succeeded, doing("on", "off"))), saw("1 power_on"),
			map[string]tally{powerOn: {Asked: 1, Seen: 1}}, nil},
		{"power cycle", one("power", try(succeeded, doing("cycle", "on"))), saw("1 power_off", "1 power_on", "1 power_on"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1},
				powerOn: {Asked: 1, Seen: 2, Duplicated: 1}}, []string{"seen 2 times: power_on" + of}},
		{"power cycle while off", one("power", try(succeeded, doing("cycle", "off"))), saw("1 power_on"),
			map[string]tally{powerOn: {Asked: 1, Seen: 1}}, nil},
		{"install", one("repave", try(failed), try(succeeded)), saw("1 install", "2 install"),
			map[string]tally{install: {Asked: 2, Seen: 2}}, nil},
		{"missing install", one("repave", try(succeeded)), nil,
			map[string]tally{install: {Asked: 1, Missing: 1}}, []string{"recorded, never seen: install" + of}},
		{"install twice", one("repave", try(succeeded)), saw("1 install", "1 install"),
			map[string]tally{install: {Asked: 1, Seen: 2, Duplicated: 1}}, []string{"seen 2 times: install" + of}},
		{"rma", one("rma", try(succeeded, on)), saw("1 power_off"), map[string]tally{powerOff: {Asked: 1, Seen: 1}}, nil},
		{"rma while off", one("rma", try(succeeded, off)), saw("1 power_off"),
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}}, []string{"seen once, not recorded: power_off" + of}},
		{"rma with wipe", one("rma", try(succeeded, on, map[string]string{"wiped": "true"})), saw("1 wipe", "1 power_off"),
			map[string]tally{wipe: {Asked: 1, Seen: 1}, powerOff: {Asked: 1, Seen: 1}}, nil},
		{"unwanted wipe in rma", one("rma", try(succeeded, on)), saw("1 wipe", "1 power_off"),
			map[string]tally{wipe: {Seen: 1, Duplicated: 1},
				powerOff: {Asked: 1, Seen: 1}}, []string{"seen once, not recorded: wipe" + of}},
		{"a script may reboot its host", one("ssh", try(succeeded)), saw("1 reboot"),
			map[string]tally{reboot: {Asked: 1, Seen: 1}}, nil},
		{"power effect without a power step", one("netboot", try(succeeded)), saw("1 power_off"),
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}}, []string{"seen once, not recorded: power_off" + of}},
		{"repeatable effects are not compared", one("netboot", try(succeeded)),
			saw("1 boot_device", "1 boot_device", "1 join"), map[string]tally{}, nil},
		{"the wrong machine", one("repave", try(succeeded)),
			[]fake.Effect{{MachineID: "m-02", RunID: "r-1", Step: "s", Attempt: 1, Effect: install, Destructive: true}},
			map[string]tally{install: {Asked: 1, Seen: 1, Duplicated: 1, Missing: 1}},
			[]string{"recorded, never seen: install" + of,
				"seen once, not recorded: install of m-02 by attempt 1 of step s of run r-1"}},
		{"no run", nil, []fake.Effect{{MachineID: "m-01", Effect: powerOff, Destructive: true}},
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}},
			[]string{"seen once, not recorded: power_off of m-01 by attempt 0 of step  of run "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := compare(tt.runs, tt.effects)
			if diff := cmp.Diff(tt.want, got.Effects); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.findings, got.Findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInOrder(t *testing.T) {
	c := comparison{Effects: map[string]tally{"zap": {}, install: {}, powerOn: {}, powerOff: {}, "melt": {}}}
	if diff := cmp.Diff([]string{powerOff, powerOn, install, "melt", "zap"}, c.inOrder()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
