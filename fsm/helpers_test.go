package fsm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Short names for frequent values in test tables.
const (
	factoryReady = holdfastv1.MachineStatus_FACTORY_READY
	ready        = holdfastv1.MachineStatus_READY
	provisioning = holdfastv1.MachineStatus_PROVISIONING
	inService    = holdfastv1.MachineStatus_IN_SERVICE
	maintenance  = holdfastv1.MachineStatus_MAINTENANCE
	rma          = holdfastv1.MachineStatus_RMA
	retired      = holdfastv1.MachineStatus_RETIRED

	succeeded = holdfastv1.Attempt_SUCCEEDED
	failed    = holdfastv1.Attempt_FAILED
	canceled  = holdfastv1.Attempt_CANCELED
)

// do applies an operation that must be accepted.
func do(t *testing.T, p *fsmtest.Peer, op proto.Message) proto.Message {
	t.Helper()
	r := p.Do(op)
	if r.Err != nil {
		t.Fatalf("%s refused: %v", op.ProtoReflect().Descriptor().Name(), r.Err)
	}
	return r.Value
}

// refused applies an operation that must be refused without a change.
func refused(t *testing.T, p *fsmtest.Peer, op proto.Message, code fsm.Code, reason string) fsm.Error {
	t.Helper()
	before := dump(t, p)
	r := p.Do(op)
	if r.Err == nil {
		t.Fatalf("%v was not refused, want code %d, reason %s", op, code, reason)
	}
	if r.Err.Code != code || r.Err.Reason != reason {
		t.Fatalf("%v: got code %d, reason %s (%v), want code %d, reason %s", op, r.Err.Code, r.Err.Reason, r.Err, code,
			reason)
	}
	if r.Value != nil {
		t.Errorf("a refused %s gives a value: %v", op.ProtoReflect().Descriptor().Name(), r.Value)
	}
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("a refused %s has changed something:\n%s", op.ProtoReflect().Descriptor().Name(), diff)
	}
	return *r.Err
}

func dump(t *testing.T, p *fsmtest.Peer) *fsmtest.Dump {
	t.Helper()
	d, err := fsmtest.DumpOf(p.FSM)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func snapshotBytes(t *testing.T, f *fsm.FSM) []byte {
	t.Helper()
	b, err := fsmtest.Bytes(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// register creates a machine in a phase, and moves it by hand if necessary.
func register(t *testing.T, p *fsmtest.Peer, id string, phase holdfastv1.MachineStatus_Phase) {
	t.Helper()
	first := ready
	if phase == factoryReady {
		first = phase
	}
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id,
		Status: &holdfastv1.MachineStatus{Phase: first}}})
	if phase != first {
		do(t, p, &internalv1.SetMachinePhase{MachineId: id, Phase: phase})
	}
}

// start begins a run "run-<request>" that must be accepted.
func start(t *testing.T, p *fsmtest.Peer, machine, request, kind, plan string) *holdfastv1.Run {
	t.Helper()
	return do(t, p, startOp(machine, request, kind, plan)).(*holdfastv1.Run)
}

func startOp(machine, request, kind, plan string) *internalv1.StartRun {
	c := &internalv1.StartRun{RunId: "run-" + request, MachineId: machine, RequestId: request, Type: kind, PlanId: plan,
		DefaultTimeoutSeconds: 600, DefaultMaxRetries: 2}
	if strings.HasPrefix(strings.ToLower(kind), "net") { // the one type whose plan requires a parameter
		c.Params = map[string]string{"net_config": "auto eth0"}
	}
	if strings.EqualFold(kind, "UPGRADE") && plan == "" { // its machine needs a node
		c.Params = map[string]string{"cluster_ref": "c"}
	}
	return c
}

// plan stores a plan with steps of the given kinds. Each step is named after its kind and is
// not retried.
func plan(t *testing.T, p *fsmtest.Peer, id string, kinds ...string) {
	t.Helper()
	do(t, p, &internalv1.CreatePlan{Plan: planOf(id, kinds...)})
}

func planOf(id string, kinds ...string) *holdfastv1.Plan {
	pl := &holdfastv1.Plan{PlanId: id}
	for _, k := range kinds {
		s := fsmtest.Step(k)
		s.MaxRetries = proto.Int32(0)
		pl.Steps = append(pl.Steps, s)
	}
	return pl
}

// begin opens the next attempt of the current step.
func begin(t *testing.T, p *fsmtest.Peer, run string) *holdfastv1.Run {
	t.Helper()
	step, n := current(t, p, run)
	return do(t, p, &internalv1.BeginAttempt{RunId: run, Step: step, Attempt: n + 1}).(*holdfastv1.Run)
}

// end closes the open attempt of the current step.
func end(t *testing.T, p *fsmtest.Peer, run string, outcome holdfastv1.Attempt_Outcome) *holdfastv1.Run {
	t.Helper()
	step, n := current(t, p, run)
	op := &internalv1.EndAttempt{RunId: run, Step: step, Attempt: n, Outcome: outcome}
	if outcome == failed {
		op.Error, op.ErrorClass = "no answer from 10.0.0.9", "transient"
	}
	return do(t, p, op).(*holdfastv1.Run)
}

// finish takes a run through all its steps. The last one ends with outcome.
func finish(t *testing.T, p *fsmtest.Peer, run string, outcome holdfastv1.Attempt_Outcome) *holdfastv1.Run {
	t.Helper()
	for {
		r := begin(t, p, run)
		last := r.GetSteps()[len(r.GetSteps())-1].GetName() == r.GetCurrentStep()
		if !last {
			end(t, p, run, succeeded)
			continue
		}
		for r = end(t, p, run, outcome); !fsm.Ended(r); r = end(t, p, run, outcome) {
			begin(t, p, run)
		}
		return r
	}
}

func current(t *testing.T, p *fsmtest.Peer, run string) (step string, attempts int32) {
	t.Helper()
	r := getRun(t, p, run)
	for _, s := range r.GetSteps() {
		if s.GetName() == r.GetCurrentStep() {
			return s.GetName(), int32(len(s.GetAttempts()))
		}
	}
	t.Fatalf("run %s has no current step: %v", run, r)
	return "", 0
}

func getRun(t *testing.T, p *fsmtest.Peer, id string) *holdfastv1.Run {
	t.Helper()
	r, ok := p.View().Run(id)
	if !ok {
		t.Fatalf("run %s not found", id)
	}
	return r
}

func getMachine(t *testing.T, p *fsmtest.Peer, id string) *holdfastv1.Machine {
	t.Helper()
	m, ok := p.View().Machine(id)
	if !ok {
		t.Fatalf("machine %s not found", id)
	}
	return m
}

func cond(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// history returns the history of a machine, oldest first, as "facet: from -> to".
func history(p *fsmtest.Peer, machine string) []string {
	var lines []string
	for e := range p.View().History(machine, 0) {
		lines = append(lines, e.GetFacet()+": "+e.GetFrom()+" -> "+e.GetTo())
	}
	slices.Reverse(lines)
	return lines
}

// same compares messages.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// logAppend returns an append of consecutive chunks on stdout.
func logAppend(run string, offset int64, data ...string) *internalv1.LogAppend {
	a := &internalv1.LogAppend{RunId: run, Offset: offset}
	for _, d := range data {
		a.Chunks = append(a.Chunks, &holdfastv1.LogChunk{Stream: "stdout", Step: "reboot", Attempt: 1, Data: []byte(d)})
	}
	return a
}
