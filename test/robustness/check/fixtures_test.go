package check

import (
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

const machine = "m-1"

// at returns a call between two times in milliseconds.
func at(from, to int, op workload.Op) workload.Op {
	op.Call, op.Return = time.Duration(from)*time.Millisecond, time.Duration(to)*time.Millisecond
	if op.Outcome == "" {
		op.Outcome = workload.OK
	}
	if op.Machine == "" && op.Plan == "" {
		op.Machine = machine
	}
	return op
}

func read(from, to int, value, active string, revision uint64) workload.Op {
	return at(from, to, workload.Op{Kind: workload.GetMachine, Index: revision,
		Machines: []workload.MachineSeen{{ID: machine, Value: value, Active: active, Revision: revision}}})
}

func wrote(from, to int, value, active string, revision uint64) workload.Op {
	op := read(from, to, value, active, revision)
	op.Kind, op.Value = workload.UpdateMachine, value
	return op
}

func started(from, to int, request, run, phase string, revision uint64) workload.Op {
	return at(from, to, workload.Op{Kind: workload.StartRun, Machine: machine, Request: request, Plan: "p",
		Index: revision, Got: ran(request, run, phase, revision)})
}

func ran(request, run, phase string, revision uint64) *workload.RunSeen {
	return &workload.RunSeen{ID: run, Machine: machine, Request: request, Plan: "p", Phase: phase,
		Ended: rank(phase) == 3, Revision: revision}
}

func got(from, to int, request, run, phase string, revision uint64) workload.Op {
	return at(from, to, workload.Op{Kind: workload.GetRun, Machine: machine, Run: run, Index: revision,
		Got: ran(request, run, phase, revision)})
}

func refused(from, to int, request, reason, named string) workload.Op {
	return at(from, to, workload.Op{Kind: workload.StartRun, Machine: machine, Request: request, Plan: "p",
		Outcome: workload.Refused, Reason: reason, Named: named})
}

func of(ops ...workload.Op) *workload.History {
	return &workload.History{Machines: []string{machine}, Register: "reg", Ops: ops}
}

// record returns a final record with succeeded runs. The ids are request and run in turn.
func record(ids ...string) *final.Record {
	f := &final.Record{
		History: map[string][]*holdfastv1.HistoryEntry{}, Logs: map[string][][]byte{}, Stdout: map[string][]byte{},
	}
	for i := 0; i < len(ids); i += 2 {
		f.Runs = append(f.Runs, &holdfastv1.Run{RunId: ids[i+1], RequestId: ids[i], MachineId: machine, PlanId: "p",
			Phase: holdfastv1.Run_SUCCEEDED, Revision: 1000,
			Steps: []*holdfastv1.StepStatus{{Name: "s", Attempts: []*holdfastv1.Attempt{{Number: 1, Epochs: []uint64{2, 3}}}}}})
	}
	return f
}

func effect(run, kind string, epoch uint64, destructive bool) fake.Effect {
	return fake.Effect{MachineID: machine, RunID: run, Step: "s", Attempt: 1, Epoch: epoch, Effect: kind,
		Destructive: destructive}
}

// expect checks the findings of a check: none if want is empty, otherwise at least one that
// contains want.
func expect(t *testing.T, found []error, want string) {
	t.Helper()
	if want == "" {
		for _, err := range found {
			t.Errorf("got finding %v, want none", err)
		}
		return
	}
	for _, err := range found {
		if strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("got findings %v, want %q", found, want)
}
