package check

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// searchTime bounds the search for an order of the calls on one machine. A timeout is a
// failure.
const searchTime = time.Minute

// linearizable checks that the calls on each machine, and on the plan that is written, have
// an order in which each response is right, and which respects real time. If not, it writes
// the picture <dir>/linearizable-<machine>.html.
func linearizable(ctx context.Context, h *workload.History, f *final.Record, dir string) []error {
	var errs []error
	for _, id := range append(slices.Clone(h.Machines), h.Register) {
		if id == "" {
			continue
		}
		ops, runs := history(id, h, f)
		limit := searchTime
		if d, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(d))
		}
		result, info := porcupine.CheckOperationsVerbose(model(runs), ops, limit)
		if result == porcupine.Ok {
			continue
		}
		what := "cannot be put into an order in which they are right"
		if result == porcupine.Unknown {
			what = fmt.Sprintf("could not be put into an order within %s", limit)
		}
		picture := filepath.Join(dir, "linearizable-"+id+".html")
		if err := porcupine.VisualizePath(model(runs), info, picture); err != nil {
			picture = err.Error()
		}
		errs = append(errs, fmt.Errorf("the %d answers about %s %s: see %s", len(ops), id, what, picture))
	}
	return errs
}

// history returns the calls on one machine, and the number of runs in them.
func history(id string, h *workload.History, f *final.Record) ([]porcupine.Operation, int) {
	t := translator{
		id:       id,
		runs:     map[string]int{},
		requests: map[string]workload.RunSeen{},
		known:    map[string]time.Duration{},
		read:     map[string]bool{},
	}
	for _, r := range f.Runs {
		if r.GetMachineId() == id {
			t.requests[r.GetRequestId()] = workload.SeenRun(r)
		}
	}
	all := slices.Concat(h.Ops, f.Reads)
	for _, op := range all {
		if op.Kind == workload.StartRun && op.Outcome == workload.OK && op.Machine == id {
			if at, ok := t.known[op.Request]; !ok || op.Return < at {
				t.known[op.Request] = op.Return
			}
		}
		if op.Stale {
			continue
		}
		for _, m := range op.Machines {
			if m.ID == id {
				t.read[m.Value] = true
			}
		}
	}
	var ops []porcupine.Operation
	for _, op := range all {
		if in, ok := t.translate(op); ok {
			in.words = picture(op)
			end := int64(op.Return)
			if !in.answered {
				end = math.MaxInt64
			}
			ops = append(ops,
				porcupine.Operation{ClientId: op.Client, Input: in, Call: int64(op.Call), Output: nil, Return: end})
		}
	}
	return ops, len(t.runs)
}

// translator translates calls into inputs of the model of one machine.
type translator struct {
	id       string
	runs     map[string]int              // numbers, from 1
	requests map[string]workload.RunSeen // recorded
	known    map[string]time.Duration    // request → when its run was first returned
	read     map[string]bool             // values that were read
}

func (t *translator) number(run string) int {
	if run == "" {
		return 0
	}
	if t.runs[run] == 0 {
		t.runs[run] = len(t.runs) + 1
	}
	return t.runs[run]
}

// translate returns the input of a call. It returns false if the call proves nothing, or is
// about another machine.
func (t *translator) translate(op workload.Op) (input, bool) {
	if op.Stale || op.Outcome == workload.NotApplied {
		return input{}, false
	}
	ok := op.Outcome == workload.OK
	switch op.Kind {
	case workload.GetMachine, workload.ListMachines, workload.GetPlan:
		return t.shown(op, get)
	case workload.UpdateMachine, workload.CreatePlan:
		if op.Outcome == workload.Unknown && t.read[op.Value] && (op.Machine == t.id || op.Plan == t.id) {
			return input{do: write, value: op.Value}, true // a value that was never read need not be explained
		}
		return t.shown(op, write)
	case workload.StartRun:
		return t.start(op)
	case workload.GetRun, workload.CancelRun:
		switch {
		case op.Machine != t.id:
		case ok && op.Got.Ended:
			return input{do: ended, run: t.number(op.Got.ID), over: true, answered: true}, true
		case ok:
			return input{do: active, run: t.number(op.Got.ID), answered: true}, true
		case op.Reason == "RUN_FINISHED":
			return input{do: ended, run: t.number(op.Run), over: true, answered: true}, true
		case op.Reason == "RUN_NOT_FOUND":
			return input{do: absent, run: t.number(op.Run), answered: true}, true
		}
	}
	return input{}, false
}

func (t *translator) shown(op workload.Op, do action) (input, bool) {
	for _, m := range op.Machines {
		if m.ID != t.id {
			continue
		}
		in := input{do: do, value: m.Value, active: t.number(m.Active), answered: true}
		if do == write {
			in.value = op.Value
		}
		return in, true
	}
	return input{}, false
}

func (t *translator) start(op workload.Op) (input, bool) {
	if op.Machine != t.id {
		return input{}, false
	}
	run, onRecord := t.requests[op.Request]
	switch {
	case op.Outcome == workload.OK:
		return input{do: create, run: t.number(op.Got.ID), over: op.Got.Ended, answered: true}, true
	case op.Reason == "ACTIVE_RUN":
		return input{do: busy, run: t.number(run.ID), active: t.number(op.Named), answered: true}, true
	case op.Reason == "REQUEST_CONFLICT":
		return input{do: made, run: t.number(op.Named), answered: true}, true
	case op.Outcome == workload.Unknown && onRecord && run.Plan == op.Plan:
		if at, ok := t.known[op.Request]; ok && at < op.Call {
			return input{}, false // a replay, which changes nothing
		}
		return input{do: create, run: t.number(run.ID)}, true
	}
	return input{}, false
}

// picture returns a description of a call for the picture.
func picture(op workload.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%d", op.Kind, op.Peer)
	for _, s := range []string{op.Request, op.Run, op.Value} {
		if s != "" && op.Kind != workload.ListMachines {
			b.WriteString(" " + s)
		}
	}
	b.WriteString(" → " + string(op.Outcome))
	if op.Got != nil {
		fmt.Fprintf(&b, " %s %s", op.Got.ID, op.Got.Phase)
	}
	if len(op.Machines) == 1 {
		fmt.Fprintf(&b, " %q active=%s", op.Machines[0].Value, op.Machines[0].Active)
	}
	if op.Reason != "" {
		b.WriteString(" " + op.Reason + " " + op.Named)
	}
	return b.String()
}
