package bulk

import (
	"context"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// parallel is the number of calls in progress. Concurrent commands share log entries, so more
// calls would gain little.
const parallel = 16

// Runs starts runs.
type Runs interface {
	StartRun(context.Context, *holdfastv1.StartRunRequest, ...grpc.CallOption) (*holdfastv1.Run, error)
}

// Updates changes machines.
type Updates interface {
	SetMachinePhase(
		context.Context, *holdfastv1.SetMachinePhaseRequest, ...grpc.CallOption,
	) (*holdfastv1.Machine, error)
	UpdateMachine(context.Context, *holdfastv1.UpdateMachineRequest, ...grpc.CallOption) (*holdfastv1.Machine, error)
}

// Result is the result of the action for one machine.
type Result struct {
	MachineID string
	RunID     string
	Err       error
}

// Do does the action to each machine, and returns the results in the order of the machines. It
// goes on after a refusal. Repeating it is safe: the runs have the request id of the question, and
// phases and labels are set to a value.
func (q *Question) Do(ctx context.Context, runs Runs, updates Updates) []Result {
	results := make([]Result, len(q.Rows))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, r := range q.Rows {
		g.Go(func() error {
			id := r.Machine.GetMachineId()
			run, err := q.one(ctx, id, runs, updates)
			results[i] = Result{MachineID: id, RunID: run, Err: err}
			return nil
		})
	}
	_ = g.Wait() // it always returns nil
	return results
}

// one does the action to one machine.
func (q *Question) one(ctx context.Context, id string, runs Runs, updates Updates) (run string, err error) {
	switch q.Kind.Key {
	case SetPhase:
		_, err = updates.SetMachinePhase(ctx, &holdfastv1.SetMachinePhaseRequest{
			MachineId: id, Phase: q.phase, Comment: q.Value("comment"),
		})
	case SetLabel:
		_, err = updates.UpdateMachine(ctx, q.relabel(id, map[string]string{q.key: q.value}))
	case RemoveLabel:
		_, err = updates.UpdateMachine(ctx, q.relabel(id, nil))
	default:
		return q.start(ctx, id, runs)
	}
	return "", err
}

// start starts the run of one machine.
func (q *Question) start(ctx context.Context, id string, runs Runs) (string, error) {
	run, err := runs.StartRun(ctx, &holdfastv1.StartRunRequest{
		RequestId: q.Request,
		MachineId: id,
		Type:      runform.TypeOf(q.Plan.GetPlanId()),
		PlanId:    q.Plan.GetPlanId(),
		Params:    q.params,
	})
	return run.GetRunId(), err
}

func (q *Question) relabel(id string, labels map[string]string) *holdfastv1.UpdateMachineRequest {
	return &holdfastv1.UpdateMachineRequest{
		Machine:    &holdfastv1.Machine{MachineId: id, Labels: labels},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + q.key}},
	}
}
