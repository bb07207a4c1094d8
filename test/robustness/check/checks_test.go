package check

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

func TestTraffic(t *testing.T) {
	var ops []workload.Op
	for _, k := range []workload.Kind{workload.StartRun, workload.CancelRun, workload.GetRun, workload.UpdateMachine,
		workload.GetMachine, workload.ListMachines, workload.CreatePlan, workload.GetPlan, workload.CreatePool,
		workload.DeletePlan} {
		ops = append(ops, at(0, 1, workload.Op{Kind: k}))
	}
	h := of(ops...)
	h.MinOps, h.Tails, h.Watches = len(ops), []workload.Tail{{}}, []workload.Watch{{Events: []workload.Event{{}}}}
	expect(t, traffic(h, record()), "")
	h.MinOps++
	expect(t, traffic(h, record()), "10 of 10 calls were answered, want at least 11")
	h.Ops = ops[1:]
	expect(t, traffic(h, record()), "0 calls of StartRun succeeded")
	h.Watches[0].Events, h.Tails = nil, nil
	expect(t, traffic(h, record()), "seen no event")
	expect(t, traffic(h, record()), "no log")
}

func TestRequests(t *testing.T) {
	one := started(0, 10, "q", "r", "PENDING", 1)
	for name, tt := range map[string]struct {
		h    *workload.History
		f    *final.Record
		want string
	}{
		"a replay": {of(one, started(20, 30, "q", "r", "RUNNING", 2)), record("q", "r"), ""},
		"a replay with another run": {of(one, started(20, 30, "q", "r2", "PENDING", 2)), record("q", "r"),
			"names run r (p), and at"},
		"another run in the record": {of(one), &final.Record{ByPeer: [][]workload.RunSeen{{*ran("q", "r2", "SUCCEEDED", 3)}}},
			"in the record run r2"},
		"a conflict": {of(one,
			func() workload.Op { op := refused(20, 30, "q", "REQUEST_CONFLICT", "r"); op.Plan = "p2"; return op }()),
			record("q", "r"), ""},
		"conflict without another run": {of(one, refused(20, 30, "q", "REQUEST_CONFLICT", "r")), record("q", "r"),
			"was refused for run"},
		"an answer of another plan": {of(func() workload.Op { op := one; op.Plan = "p2"; return op }()), record("q", "r"),
			"was answered with"},
		"an answer with another run": {of(got(0, 10, "q", "r", "RUNNING", 1),
			func() workload.Op { op := got(0, 10, "q2", "r2", "RUNNING", 1); op.Run = "r3"; return op }()), record("q",
			"r"), "answered with run r2"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, requests(tt.h, tt.f), tt.want) })
	}
}

func TestAcknowledged(t *testing.T) {
	entries := func(tos ...string) *final.Record {
		f := record("q", "r")
		for i, to := range tos {
			f.History[machine] = append(f.History[machine], &holdfastv1.HistoryEntry{Sequence: uint64(i + 1),
				Facet: "inventory", To: to})
		}
		return f
	}
	gap := entries("labels", "labels")
	gap.History[machine][1].Sequence = 3
	// cut returns a full history from whose beginning entries were dropped. The first and the last
	// of the kept ones have a gap of dropped-1 between them.
	cut := func(dropped uint64) *final.Record {
		f := entries(make([]string, keptHistory)...)
		all := f.History[machine]
		for i, e := range all {
			e.Sequence++
			if i == len(all)-1 {
				e.Sequence += dropped - 1
			}
		}
		all[len(all)-1].To = "labels"
		return f
	}
	active := record("q", "r")
	active.Runs[0].Phase = holdfastv1.Run_RUNNING
	for name, tt := range map[string]struct {
		h    *workload.History
		f    *final.Record
		want string
	}{
		"complete": {of(started(0, 10, "q", "r", "PENDING", 1), wrote(0, 10, "a", "", 1)), entries("labels"),
			""},
		"lost run":                  {of(started(0, 10, "q", "r", "PENDING", 1)), record(), "run r is lost"},
		"run with a lower revision": {of(started(0, 10, "q", "r", "PENDING", 1001)), record("q", "r"), "at revision 1000"},
		"changed outcome":           {of(got(0, 10, "q", "r", "FAILED", 1)), record("q", "r"), "has SUCCEEDED"},
		"active run":                {of(), active, "is RUNNING after everything has settled"},
		"lost write": {of(wrote(0, 10, "a", "", 1), wrote(0, 10, "b", "", 1)), entries("labels"),
			"has 1 writes of labels and dropped 0 entries, 2 were acknowledged"},
		"dropped write": {of(wrote(0, 10, "a", "", 1), wrote(0, 10, "b", "", 1)), cut(1), ""},
		"lost write and a dropped one": {of(wrote(0, 10, "a", "", 1), wrote(0, 10, "b", "", 1), wrote(0, 10, "c", "", 1)),
			cut(1), "has 1 writes of labels and dropped 1 entries, 3 were acknowledged"},
		"gap in a cut history":   {of(), cut(7), "has 1000 entries and ends with number 1007"},
		"gap in the history":     {of(), gap, "has 2 entries and ends with number 3"},
		"entry of another field": {of(wrote(0, 10, "a", "", 1)), entries("spec.rack"), "has 0 writes"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, acknowledged(tt.h, tt.f), tt.want) })
	}
}

func TestEffectsAndHardware(t *testing.T) {
	for name, tt := range map[string]struct {
		effects           []fake.Effect
		overlaps          int
		effects1, machine string
	}{
		"once each": {[]fake.Effect{effect("r", "power_off", 2, true), effect("r", "power_on", 2, false),
			effect("r", "power_on", 3, false)}, 0, "", ""},
		"destructive twice": {[]fake.Effect{effect("r", "power_off", 2, true), effect("r", "power_off", 3, true)}, 0,
			"more than 1 times", ""},
		"token twice": {[]fake.Effect{effect("r", "install", 2, false), effect("r", "install", 3, false)}, 0,
			"more than 1 times", ""},
		"more effects than leaders": {[]fake.Effect{effect("r", "boot_device", 2, false),
			effect("r", "boot_device", 2, false), effect("r", "boot_device", 2, false)}, 0, "more than 2 times", ""},
		"no intent":  {[]fake.Effect{effect("r", "power_off", 4, true)}, 0, "recorded are the epochs [2 3]", ""},
		"no attempt": {[]fake.Effect{effect("r9", "power_off", 2, true)}, 0, "no recorded attempt", ""},
		"older leader": {[]fake.Effect{effect("r", "power_on", 3, false), effect("r", "boot_device", 2, false)}, 0, "",
			"comes after one of epoch 3"},
		"runs overlap": {[]fake.Effect{effect("r", "power_on", 2, false), effect("r2", "power_on", 2, false),
			effect("r", "boot_device", 2, false)}, 0, "", "two runs overlap"},
		"in flight at once": {nil, 1, "", "was touched 1 times"},
	} {
		t.Run(name, func(t *testing.T) {
			f := record("q", "r", "q2", "r2")
			f.Effects, f.Hardware = tt.effects, []fake.MachineState{{MachineID: machine, Overlaps: tt.overlaps}}
			expect(t, effects(of(), f), tt.effects1)
			expect(t, hardware(of(), f), tt.machine)
		})
	}
}

func TestWatches(t *testing.T) {
	event := func(cursor uint64, run, phase string) workload.Event {
		return workload.Event{Cursor: cursor, Index: cursor, Run: *ran("q", run, phase, cursor)}
	}
	current := func(cursor uint64, run, phase string) workload.Event {
		e := event(cursor, run, phase)
		e.Current = true
		return e
	}
	whole := []workload.Event{event(1, "r", "PENDING"), event(2, "r", "RUNNING"), event(3, "r", "SUCCEEDED")}
	other := []workload.Event{whole[0], {Cursor: 2, Index: 2, Run: whole[1].Run, Message: "else"}, whole[2]}
	for name, tt := range map[string]struct {
		watches []workload.Watch
		want    string
	}{
		"whole": {[]workload.Watch{{Events: whole}, {Events: whole}}, ""},
		"from the current state": {[]workload.Watch{{Events: []workload.Event{current(0, "r0", "SUCCEEDED"),
			current(2, "r", "RUNNING"), whole[2]}}}, ""},
		"gap":         {[]workload.Watch{{Events: []workload.Event{whole[0], whole[2]}}}, "cursor 3 after 1"},
		"event twice": {[]workload.Watch{{Events: []workload.Event{whole[0], whole[0]}}}, "cursor 1 after 1"},
		"current state twice": {[]workload.Watch{{Events: []workload.Event{whole[0], current(2, "r", "RUNNING")}}},
			"current state again"},
		"different events": {[]workload.Watch{{Events: whole}, {Events: other}}, "another watcher"},
		"back": {[]workload.Watch{{Events: []workload.Event{event(1, "r", "RUNNING"),
			event(2, "r", "PENDING")}}}, "from RUNNING"},
		"event after end": {[]workload.Watch{{Events: append(whole[:3:3], event(4, "r", "SUCCEEDED"))}}, "from SUCCEEDED"},
		"missing end":     {[]workload.Watch{{Events: whole[:2]}}, "last saw run r RUNNING"},
		"trouble":         {[]workload.Watch{{Events: whole, Trouble: []string{"OUT_OF_RANGE"}}}, "OUT_OF_RANGE"},
	} {
		t.Run(name, func(t *testing.T) {
			h := of()
			h.Watches = tt.watches
			expect(t, watches(h, record("q", "r")), tt.want)
		})
	}
}

func TestTailsAndOutput(t *testing.T) {
	f := record("q", "r")
	f.Logs["r"] = [][]byte{[]byte("abc"), []byte("abc")}
	h := of()
	h.Tails = []workload.Tail{{Run: "r", Data: []byte("abc"), Done: true}}
	expect(t, tails(h, f), "")
	h.Tails[0].Data = []byte("ac")
	expect(t, tails(h, f), "2 bytes were read in 0 streams, peer 0 has 3")
	h.Tails = []workload.Tail{{Run: "r"}, {Run: "r2", Done: true},
		{Run: "r", Data: []byte("abc"), Done: true, Trouble: []string{"a gap"}}}
	for _, want := range []string{"not read to its end", "log of run r2 is lost", "a gap"} {
		expect(t, tails(h, f), want)
	}

	f.Runs[0].PlanId = "rb-talk"
	text := Printed(workload.TalkScript)
	f.Stdout["r"] = []byte(text)
	expect(t, output(h, f), "")
	f.Stdout["r"] = []byte(text[:10] + text[20:])
	expect(t, output(h, f), "from byte ")
	f.Runs[0].Phase = holdfastv1.Run_CANCELED
	expect(t, output(h, f), "")
}

func TestStates(t *testing.T) {
	f := record()
	expect(t, states(of(), f), "no peer")
	f.Sums = []final.Sum{{Peer: "n1", Index: 5, Sum: []byte("x")}, {Peer: "n2", Index: 5, Sum: []byte("x")}}
	expect(t, states(of(), f), "")
	f.Sums[1].Sum = []byte("y")
	expect(t, states(of(), f), "different states at index 5")
	f.Sums[1].Index = 6
	expect(t, states(of(), f), "do not converge")
}

func TestOrder(t *testing.T) {
	expect(t, order(of(wrote(0, 10, "a", "", 5), read(5, 30, "", "", 4), read(20, 30, "a", "", 5)), record()), "")
	expect(t, order(of(wrote(0, 10, "a", "", 5), read(20, 30, "", "", 4)), record()),
		"machine m-1 went back from revision 5 to 4")
	expect(t, order(of(got(0, 10, "q", "r", "RUNNING", 5), got(20, 30, "q", "r", "RUNNING", 4)), record()),
		"run r went back")
	behind := read(20, 30, "", "", 3)
	behind.Machines[0].ID = "m-2"
	expect(t, order(of(wrote(0, 10, "a", "", 5), behind), record()), "the cluster went back from revision 5 to 3")
	behind.Stale = true
	expect(t, order(of(wrote(0, 10, "a", "", 5), behind), record()), "")
}

func TestRevisions(t *testing.T) {
	expect(t, revisions(of(read(0, 10, "a", "", 5), read(20, 30, "a", "", 5), read(0, 10, "b", "", 6)), record()), "")
	old := read(20, 30, "b", "", 5)
	old.Stale = true
	expect(t, revisions(of(read(0, 10, "a", "", 5), old), record()), "machine m-1 at revision 5 is")
	expect(t, revisions(of(wrote(0, 10, "a", "", 5), old), record()), "")
}

func TestOneActive(t *testing.T) {
	run := func(id string, from, to int) *holdfastv1.Run {
		r := &holdfastv1.Run{RunId: id, MachineId: machine, CreatedAt: &timestamppb.Timestamp{Seconds: int64(from)}}
		if to > 0 {
			r.FinishedAt = &timestamppb.Timestamp{Seconds: int64(to)}
		}
		return r
	}
	other := run("r3", 1, 9)
	other.MachineId = "m-2"
	for name, tt := range map[string]struct {
		runs []*holdfastv1.Run
		want string
	}{
		"in turn":            {[]*holdfastv1.Run{run("r2", 5, 8), other, run("r1", 1, 5)}, ""},
		"overlap":            {[]*holdfastv1.Run{run("r2", 4, 8), run("r1", 1, 5)}, "has run r2 from"},
		"within another":     {[]*holdfastv1.Run{run("r1", 1, 9), run("r2", 2, 3), run("r4", 8, 10)}, "has run r4 from"},
		"still active":       {[]*holdfastv1.Run{run("r1", 1, 0), run("r2", 2, 3)}, "has run r2 from"},
		"clock stood still":  {[]*holdfastv1.Run{run("r1", 1, 4), run("r2", 1, 1), run("r3", 1, 1)}, ""},
		"long afterwards":    {[]*holdfastv1.Run{run("r1", 1, 0), run("r2", 1, 1), run("r3", 4, 5)}, "has run r3 from"},
		"in the same second": {[]*holdfastv1.Run{run("r1", 1, 2), run("r2", 1, 2)}, "has run r2 from"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, oneActive(of(), &final.Record{Runs: tt.runs}), tt.want) })
	}
}

func TestFirstErrors(t *testing.T) {
	var many []error
	for range 30 {
		many = append(many, t.Context().Err())
	}
	if got := firstErrors(many); len(got) != 11 {
		t.Errorf("got %d errors, want 10 and a summary of the rest", len(got))
	}
}
