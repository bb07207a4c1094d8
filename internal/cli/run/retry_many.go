package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// retryRuns are the arguments of run retry --filter.
type retryRuns struct {
	path, filter, request string
	ok                    prompt.Consent
}

// retryAll retries the last run of each machine that has ended without success, if it matches.
// All new runs have one request id, so that a repeated command starts none twice.
func retryAll(ctx context.Context, a *app.App, c *client.Client, o *output.Flags, r retryRuns) error {
	runs, err := lastFailed(ctx, c, r.filter)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		a.Note("no machine has a last run that ended without success and matches %q", r.filter)
		return nil
	}
	loss, asking, err := retryLoss(ctx, c, runs)
	switch {
	case err != nil:
		return err
	case r.ok.DryRun:
		a.Note("dry run: %s", loss)
		return output.PrintList(a, o, kinds.Run(), runs)
	case asking:
		if err := r.ok.Obtain(ctx, a, r.path, loss, prompt.Word(app.Mapped(runs, (*holdfastv1.Run).GetRunId))); err != nil {
			return err
		}
	}
	request := cmp.Or(r.request, uuid.NewString())
	a.Note("request-id: %s", request)
	done, errs := make([]*holdfastv1.Run, len(runs)), make([]error, len(runs))
	for i, run := range runs {
		req, err := retryRequest(run)
		if err == nil {
			req.RequestId = request
			done[i], err = c.Runs().StartRun(ctx, req)
			err = app.Failed(err, "retry run %s", run.GetRunId())
		}
		errs[i] = err
	}
	return output.PrintDone(a, o, kinds.Run(), done, errs, "retry runs")
}

// lastFailed returns the runs that match a filter and ended without success, if they are the last
// runs of their machines.
func lastFailed(ctx context.Context, c *client.Client, among string) ([]*holdfastv1.Run, error) {
	all, err := kinds.Run().All(ctx, c, "("+among+") AND (phase = FAILED OR phase = CANCELED)", 0)
	if err != nil {
		return nil, app.Failed(err, "list runs")
	}
	var last []*holdfastv1.Run
	for _, r := range all {
		newest, err := kinds.Run().All(ctx, c, filter.Equals("machine_id", r.GetMachineId()), 1)
		if err != nil {
			return nil, app.Failed(err, "list runs")
		}
		if len(newest) == 1 && newest[0].GetRunId() == r.GetRunId() {
			last = append(last, r)
		}
	}
	return last, nil
}

// retryLoss describes the effects of retrying runs, and reports whether they need a confirmation.
func retryLoss(ctx context.Context, c *client.Client, runs []*holdfastv1.Run) (string, bool, error) {
	plans, counts, asking := map[string]*holdfastv1.Plan{}, map[string]int{}, false
	for _, r := range runs {
		plan := plans[r.GetPlanId()]
		if plan == nil {
			var err error
			if plan, err = kinds.GetPlan(ctx, c, r.GetPlanId()); err != nil {
				return "", false, err
			}
			plans[r.GetPlanId()] = plan
		}
		e := fsm.EffectOf(plan, r.GetParams())
		counts[r.GetPlanId()+": "+e.Text]++
		if asking = asking || e.Grave; asking || !e.Interrupts {
			continue
		}
		m, err := kinds.GetMachine(ctx, c, r.GetMachineId())
		if status.Code(err) == codes.NotFound {
			continue // its start will be refused
		} else if err != nil {
			return "", false, err
		}
		asking = start.Asks(plan, r.GetParams(), m)
	}
	parts := []string{"retry " + kinds.RunCount(len(runs))}
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[text], text))
	}
	return strings.Join(parts, "; "), asking, nil
}
