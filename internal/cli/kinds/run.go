package kinds

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/expression"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Run returns the kind of runs.
func Run() output.Kind[*holdfastv1.Run] {
	return output.Kind[*holdfastv1.Run]{
		Noun: "run", List: "runs",
		Name:   (*holdfastv1.Run).GetRunId,
		Header: []string{"RUN", "MACHINE", "TYPE", "PHASE", "STEP", "DONE", "TOOK", "CREATED", "WHY"},
		Wide:   []string{"PLAN", "REQUEST", "QUEUE", "STARTED BY"},
		Row: func(r *holdfastv1.Run, now time.Time) []any {
			return []any{
				r.GetRunId(), r.GetMachineId(), cmp.Or(r.GetType(), r.GetPlanId()),
				render.State(describe.Enum(r.GetPhase())), r.GetCurrentStep(),
				describe.Done(r), progress.Took(now, r.GetStartedAt(), r.GetFinishedAt()),
				app.Age(now, r.GetCreatedAt()), progress.Why(r, now),
				r.GetPlanId(), r.GetRequestId(), app.Number(max(r.GetQueuePosition(), 0)), r.GetPrincipal(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Run, string, error) {
			r, err := c.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{Filter: q.Filter, PageSize: q.Size,
				PageToken: q.Token})
			return r.GetRuns(), r.GetNextPageToken(), err
		},
		Get: GetRun,
	}
}

// RunEffect returns the effect of a run on the machine and its disks, and whether it has erased
// them.
func RunEffect(r *holdfastv1.Run) []*render.Table {
	effect, disks := r.GetEffect(), describe.DisksErased(r)
	if effect == "" && disks == "" {
		return nil
	}
	t := render.NewTable("EFFECT", "DISKS ERASED")
	t.Row(effect, disks)
	return []*render.Table{t}
}

// RunSteps returns the steps of a run as a table.
func RunSteps(r *holdfastv1.Run, now time.Time) *render.Table {
	t := render.NewTable("STEP", "KIND", "STATE", "ATTEMPTS", "TOOK", "MESSAGE")
	for _, s := range r.GetSteps() {
		message := s.GetMessage()
		if s.GetName() == r.GetCurrentStep() {
			message = cmp.Or(progress.Why(r, now), message)
		}
		t.Row(s.GetName(), s.GetKind(), render.State(describe.Enum(s.GetState())), describe.Attempts(s),
			progress.Took(now, s.GetStartedAt(), s.GetFinishedAt()), message)
	}
	return t
}

// GetRun returns a run by its id.
func GetRun(ctx context.Context, c *client.Client, id string) (*holdfastv1.Run, error) {
	r, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: id})
	return r, app.Failed(err, "get run %s", id)
}

// ActiveRuns is the filter of runs that have not ended.
const ActiveRuns = "phase = PENDING OR phase = RUNNING"

// RunCount returns a number of runs.
func RunCount(n int) string { return describe.Number(n, "run") }

// Started returns the shapes of what commands print that start or end runs: these, a wave of them,
// or the machines of a dry run.
func Started() []expression.Shape {
	return slices.Concat(output.Shapes(Run()), output.Shapes(Wave()), output.Shapes(Machine()))
}
