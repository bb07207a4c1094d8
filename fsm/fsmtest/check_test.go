package fsmtest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// made returns a view of a state that no log produces: a snapshot of the given rows, with as
// many events.
func made(t *testing.T, rows ...proto.Message) *fsm.View {
	t.Helper()
	meta := &internalv1.Meta{FeatureLevel: 1, AppliedIndex: 9}
	var records []proto.Message
	for _, row := range rows {
		r := &internalv1.SnapshotRecord{}
		switch row := row.(type) {
		case *holdfastv1.Machine:
			r.Table, r.Key = internalv1.SnapshotRecord_MACHINES, row.GetMachineId()
		case *holdfastv1.Plan:
			r.Table, r.Key = internalv1.SnapshotRecord_PLANS, row.GetPlanId()
		case *holdfastv1.Run:
			r.Table, r.Key = internalv1.SnapshotRecord_RUNS, row.GetRunId()
		case *holdfastv1.RunEvent:
			r.Table, r.Key = internalv1.SnapshotRecord_RUN_EVENTS, fmt.Sprintf("%016x", row.GetCursor())
			meta.FirstRunEvent, meta.LastRunEvent = 1, meta.GetLastRunEvent()+1
		}
		var err error
		if r.Value, err = proto.Marshal(row); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	var b bytes.Buffer
	for _, m := range append(append([]proto.Message{&internalv1.SnapshotHeader{Format: 1, Meta: meta}}, records...),
		&internalv1.SnapshotRecord{}) {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := protodelim.MarshalTo(&b, &internalv1.SnapshotTrailer{Records: uint64(len(records)),
		Checksum: xxhash.Sum64(b.Bytes())}); err != nil {
		t.Fatal(err)
	}
	f := fsm.New()
	if err := f.Restore(&b); err != nil {
		t.Fatal(err)
	}
	return f.View()
}

// wants checks that an error contains a text; "" means no error.
func wants(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func machine(id, run string, phase holdfastv1.MachineStatus_Phase, node holdfastv1.Node_State) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{},
		Status: &holdfastv1.MachineStatus{Phase: phase, NodeState: node, ActiveRunId: run}}
}

// run returns a run at its only step, in the first attempt.
func run(id, machine, request string, change ...func(*holdfastv1.Run)) *holdfastv1.Run {
	r := &holdfastv1.Run{RunId: id, MachineId: machine, RequestId: request, PlanId: "p", Phase: holdfastv1.Run_RUNNING,
		CurrentStep: "a",
		Steps: []*holdfastv1.StepStatus{{Name: "a", State: holdfastv1.StepStatus_RUNNING, MaxRetries: 1,
			Attempts: []*holdfastv1.Attempt{{Number: 1, Epochs: []uint64{1}}}}}}
	r.Wait = &holdfastv1.Wait{Kind: holdfastv1.Wait_STEP, Since: &timestamppb.Timestamp{Seconds: 1}}
	for _, c := range change {
		c(r)
	}
	return r
}

func event(cursor uint64, r *holdfastv1.Run) *holdfastv1.RunEvent {
	return &holdfastv1.RunEvent{Cursor: cursor, Index: cursor, Snapshot: r}
}

func TestCheckFindsProblems(t *testing.T) {
	const (
		ready        = holdfastv1.MachineStatus_READY
		provisioning = holdfastv1.MachineStatus_PROVISIONING
		inService    = holdfastv1.MachineStatus_IN_SERVICE
		maintenance  = holdfastv1.MachineStatus_MAINTENANCE
		retired      = holdfastv1.MachineStatus_RETIRED
		pending      = holdfastv1.Node_PENDING
	)
	plan := &holdfastv1.Plan{PlanId: "p", Referenced: true}
	busy := machine("m", "r", provisioning, pending)
	// of checks a run and the records that belong to it.
	of := func(change ...func(*holdfastv1.Run)) []proto.Message {
		r := run("r", "m", "q", change...)
		m := busy
		if fsm.Ended(r) {
			m = machine("m", "", ready, pending)
		}
		return []proto.Message{plan, m, r, event(1, r)}
	}
	step := func(change func(*holdfastv1.StepStatus)) func(*holdfastv1.Run) {
		return func(r *holdfastv1.Run) { change(r.Steps[0]) }
	}
	failedInstall := machine("m", "", maintenance, holdfastv1.Node_INSTALL_FAILED)
	failedInstall.Status.Conditions = []*holdfastv1.Condition{{Type: "NeedsIntervention", Status: true}}
	withMAC := func(id string) *holdfastv1.Machine {
		m := machine(id, "", ready, pending)
		m.Spec.MacAddresses = []string{"02:00:00:00:00:01"}
		return m
	}
	r, second := run("r", "m", "q"), run("r2", "m", "q2")
	tests := []struct {
		name string
		rows []proto.Message
		want string
	}{
		{"nothing", nil, ""},
		{"a run", of(), ""},
		{"an ended run", of(func(r *holdfastv1.Run) {
			r.Phase, r.FinishedAt, r.Wait = holdfastv1.Run_SUCCEEDED, &timestamppb.Timestamp{Seconds: 1}, nil
		},
			step(func(s *holdfastv1.StepStatus) {
				s.State, s.Attempts[0].Outcome = holdfastv1.StepStatus_SUCCEEDED, holdfastv1.Attempt_SUCCEEDED
			})), ""},
		{"a failed install", []proto.Message{failedInstall}, ""},
		{"a failed install of which nobody knows",
			[]proto.Message{machine("m", "", maintenance, holdfastv1.Node_INSTALL_FAILED)}, "NeedsIntervention"},
		{"a failed install elsewhere", []proto.Message{machine("m", "", ready, holdfastv1.Node_INSTALL_FAILED)},
			"install_failed implies"},
		{"an install without a run", []proto.Message{machine("m", "", ready, holdfastv1.Node_INSTALLING)},
			"installing implies"},
		{"active, not in service", []proto.Message{machine("m", "", ready, holdfastv1.Node_ACTIVE)},
			"IN_SERVICE goes with active"},
		{"in service, not active", []proto.Message{machine("m", "", inService, pending)}, "IN_SERVICE goes with active"},
		{"retired in part", []proto.Message{machine("m", "", retired, pending)}, "RETIRED goes with retired"},
		{"no node state", []proto.Message{machine("m", "", ready, 0)}, "not set"},
		{"PROVISIONING without a run", []proto.Message{machine("m", "", provisioning, pending)}, "PROVISIONING goes with"},
		{"a run that is not there", []proto.Message{busy}, "its active run is"},
		{"a run on a machine that is free", []proto.Message{plan, machine("m", "", ready, pending), r, event(1, r)},
			"its active run is"},
		{"a run on no machine", []proto.Message{plan, r, event(1, r)}, "which is gone"},
		{"two runs on a machine", []proto.Message{plan, busy, r, second, event(1, r), event(2, second)}, "two active runs"},
		{"two runs of a request", []proto.Message{plan, busy, r, run("r0", "m", "q"), event(1, r),
			event(2, run("r0", "m", "q"))}, "names two runs"},
		{"a run without a plan", []proto.Message{busy, r, event(1, r)}, "refers to plan"},
		{"one MAC on two machines", []proto.Message{withMAC("a"), withMAC("b")}, "belongs to"},
		{"a run without an event", []proto.Message{plan, busy, r}, "last event"},
		{"a run that went on without an event",
			[]proto.Message{plan, busy, r,
				event(1, run("r", "m", "q", func(r *holdfastv1.Run) { r.CancelReason = "x" }))}, "last event"},
		{"an attempt with a wrong number", of(step(func(s *holdfastv1.StepStatus) { s.Attempts[0].Number = 2 })), "numbered"},
		{"two open attempts", of(step(func(s *holdfastv1.StepStatus) {
			s.Attempts, s.RetryCount = append(s.Attempts, &holdfastv1.Attempt{Number: 2}), 1
		})), "open"},
		{"an attempt of a step that is done",
			of(step(func(s *holdfastv1.StepStatus) { s.State = holdfastv1.StepStatus_SUCCEEDED })), "open"},
		{"an attempt of a pending run", of(func(r *holdfastv1.Run) { r.Phase = holdfastv1.Run_PENDING }), "open"},
		{"epochs that go back", of(step(func(s *holdfastv1.StepStatus) { s.Attempts[0].Epochs = []uint64{3, 3} })), "epochs"},
		{"a retry that is not counted", of(step(func(s *holdfastv1.StepStatus) { s.RetryCount = 1 })), "retry_count"},
		{"waiting, and begun", of(step(func(s *holdfastv1.StepStatus) { s.State = holdfastv1.StepStatus_WAITING })),
			"with 1 attempts"},
		{"a step out of turn", of(func(r *holdfastv1.Run) {
			r.Steps = append([]*holdfastv1.StepStatus{{Name: "0", State: holdfastv1.StepStatus_WAITING}}, r.GetSteps()...)
		}), "the one after it"},
		{"an active run that waits for nothing", of(func(r *holdfastv1.Run) { r.Wait = nil }), "with wait <nil>"},
		{"a wait of no kind", of(func(r *holdfastv1.Run) { r.Wait.Kind = 0 }), "with wait"},
		{"a stored sentence", of(func(r *holdfastv1.Run) { r.Wait.Sentence = "x" }), "with sentence"},
		{"an ended run that waits", of(step(func(s *holdfastv1.StepStatus) {
			s.State, s.Attempts[0].Outcome = holdfastv1.StepStatus_SUCCEEDED, holdfastv1.Attempt_SUCCEEDED
		}), func(r *holdfastv1.Run) {
			r.Phase, r.FinishedAt = holdfastv1.Run_SUCCEEDED, &timestamppb.Timestamp{Seconds: 1}
		}), "SUCCEEDED with wait"},
		{"an end without a reason", of(func(r *holdfastv1.Run) {
			r.Phase, r.FinishedAt, r.Wait = holdfastv1.Run_FAILED, &timestamppb.Timestamp{Seconds: 1}, nil
		},
			step(func(s *holdfastv1.StepStatus) { s.Attempts[0].Outcome = holdfastv1.Attempt_FAILED })), "with error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wants(t, fsmtest.Check(made(t, tt.rows...)), tt.want) })
	}
}

func TestCheckStepFindsProblems(t *testing.T) {
	p := fsmtest.NewPeer()
	ended := func(change ...func(*holdfastv1.Run)) *holdfastv1.Run {
		return run("r", "m", "q", append([]func(*holdfastv1.Run){func(r *holdfastv1.Run) {
			r.Phase, r.FinishedAt, r.Wait = holdfastv1.Run_SUCCEEDED, &timestamppb.Timestamp{Seconds: 1}, nil
		}}, change...)...)
	}
	closed := func(r *holdfastv1.Run) { r.Steps[0].Attempts[0].Outcome = holdfastv1.Attempt_FAILED }
	first := func(value string) func(*holdfastv1.Run) {
		return func(r *holdfastv1.Run) { r.Steps[0].Attempts[0].EvidenceBefore = map[string]string{"boot_id": value} }
	}
	tests := []struct {
		name          string
		before, after proto.Message
		want          string
	}{
		{"nothing", run("r", "m", "q"), run("r", "m", "q"), ""},
		{"progress", run("r", "m", "q"), ended(closed), ""},
		{"a compressed log", ended(), ended(func(r *holdfastv1.Run) { r.LogCompacted = true }), ""},
		{"a run that vanishes", run("r", "m", "q"), run("r2", "m", "q"), "vanished"},
		{"a change after the end", ended(), ended(func(r *holdfastv1.Run) { r.CancelReason = "x" }), "after its end"},
		{"a phase that goes back", run("r", "m", "q"),
			run("r", "m", "q", func(r *holdfastv1.Run) { r.Phase = holdfastv1.Run_PENDING }), "went from RUNNING"},
		{"another request", run("r", "m", "q"), run("r", "m", "q2"), "another one"},
		{"a log that shrinks", run("r", "m", "q", func(r *holdfastv1.Run) { r.LogBytes = 5 }), run("r", "m", "q"),
			"another one"},
		{"a step that goes back", run("r", "m", "q"),
			run("r", "m", "q", func(r *holdfastv1.Run) { r.Steps[0].State = holdfastv1.StepStatus_WAITING }), "step a went"},
		{"an attempt that opens again", run("r", "m", "q", closed), run("r", "m", "q"), "has changed after its end"},
		{"an attempt that is lost", run("r", "m", "q"),
			run("r", "m", "q", func(r *holdfastv1.Run) { r.Steps[0].Attempts = nil }), "step a went"},
		{"other evidence before", run("r", "m", "q", first("1")), run("r", "m", "q", first("2")), "first evidence"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wants(t, fsmtest.CheckStep(made(t, tt.before), made(t, tt.after)), tt.want)
		})
	}
	early := p.View()
	p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m"}})
	p.Do(&internalv1.StartRun{RunId: "r", MachineId: "m", RequestId: "q", Type: "REBOOT"})
	wants(t, fsmtest.CheckStep(early, p.View()), "")
	wants(t, fsmtest.CheckStep(p.View(), early), "went backwards")
	wants(t, fsmtest.CheckStep(p.View(), early), "has vanished")
	wants(t, fsmtest.CheckStep(p.View(), early), "history of m has 0 entries")
}

func TestDiff(t *testing.T) {
	a, b := fsmtest.NewPeer(), fsmtest.NewPeer()
	diff := func() string {
		t.Helper()
		x, err := fsmtest.DumpOf(a.FSM)
		if err != nil {
			t.Fatal(err)
		}
		y, err := fsmtest.DumpOf(b.FSM)
		if err != nil {
			t.Fatal(err)
		}
		return x.Diff(y)
	}
	b.Do(&internalv1.NoOp{}) // only moves the index and the clock
	if got := diff(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	a.Do(&internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p1", MaxFeatureLevel: 1}})
	a.Do(&internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p2", MaxFeatureLevel: 1}})
	b.Do(&internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p2", MaxFeatureLevel: 2}})
	b.Do(&internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p3", MaxFeatureLevel: 1}})
	b.Lead(2)
	got := diff()
	for _, want := range []string{"meta: ", "PEERS/p1 is gone", "PEERS/p2 has changed", "PEERS/p3 is new"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}
