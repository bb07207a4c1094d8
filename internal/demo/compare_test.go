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
			[]string{"seen 1 time, not recorded: power_off of m-01 by attempt 2 of step s of run r-1"}},
		{"failed, but observed off", one("reboot", try(failed, on, offSeen)), nil,
			map[string]tally{powerOff: {Asked: 1, Missing: 1}}, []string{"recorded, never seen: power_off" + of}},
		{"failed and pressed twice", one("reboot", try(failed, on)), saw("1 power_off", "1 power_off"),
			map[string]tally{powerOff: {Asked: 1, Seen: 2, Duplicated: 1}}, []string{"seen 2 times: power_off" + of}},
		{"canceled on the way", one("reboot", try(canceled, on)), saw("1 power_off"),
			map[string]tally{powerOff: {Asked: 1, Seen: 1}}, nil},
		{"still at it", one("reboot", try(pending, on)), nil, map[string]tally{}, nil},
		{"failed at the first poll", one("reboot", try(failed)), nil, map[string]tally{}, nil},
		{"install", one("repave", try(failed), try(succeeded)), saw("1 install", "2 install"),
			map[string]tally{install: {Asked: 2, Seen: 2}}, nil},
		{"missing install", one("repave", try(succeeded)), nil,
			map[string]tally{install: {Asked: 1, Missing: 1}}, []string{"recorded, never seen: install" + of}},
		{"install twice", one("repave", try(succeeded)), saw("1 install", "1 install"),
			map[string]tally{install: {Asked: 1, Seen: 2, Duplicated: 1}}, []string{"seen 2 times: install" + of}},
		{"power effect without a power step", one("netboot", try(succeeded)), saw("1 power_off"),
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}}, []string{"seen 1 time, not recorded: power_off" + of}},
		{"repeatable effects are not compared", one("netboot", try(succeeded)),
			saw("1 boot_device", "1 boot_device", "1 join"), map[string]tally{}, nil},
		{"the wrong machine", one("repave", try(succeeded)),
			[]fake.Effect{{MachineID: "m-02", RunID: "r-1", Step: "s", Attempt: 1, Effect: install, Destructive: true}},
			map[string]tally{install: {Asked: 1, Seen: 1, Duplicated: 1, Missing: 1}},
			[]string{"recorded, never seen: install" + of,
				"seen 1 time, not recorded: install of m-02 by attempt 1 of step s of run r-1"}},
		{"a wipe that no step has", one("repave", try(succeeded)), saw("1 install", "1 wipe"),
			map[string]tally{install: {Asked: 1, Seen: 1}, "wipe": {Seen: 1, Duplicated: 1}},
			[]string{"seen 1 time, not recorded: wipe" + of}},
		{"no run", nil, []fake.Effect{{MachineID: "m-01", Effect: powerOff, Destructive: true}},
			map[string]tally{powerOff: {Seen: 1, Duplicated: 1}},
			[]string{"seen 1 time, not recorded: power_off of m-01 by attempt 0 of step  of run "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, findings := compare(tt.runs, tt.effects)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.findings, findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
