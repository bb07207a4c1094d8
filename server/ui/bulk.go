package ui

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/ui/internal/bulk"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/runform"
)

// bulkTimeout is the timeout of an action on many machines.
const bulkTimeout = 30 * time.Second

// bulkBody is the confirmation page of an action on many machines.
type bulkBody struct {
	*bulk.Question
	Plans []*holdfastv1.Plan // to choose from
	Back  string
}

// bulkDoneBody is the page with the result for each machine.
type bulkDoneBody struct {
	*bulk.Question
	Results           []bulkResult
	Left              []string // machines for which the action is not known to be done
	Done, Refused     int
	Unsure            int    // the outcome is unknown
	Retyped           string // confirms a repetition for the machines that are left
	RunsLink, ListURL string
}

type bulkResult struct {
	bulk.Result
	Outcome, Message string
}

func (v *visit) askBulk(k bulk.Kind) error {
	q, err := bulk.Ask(v.ctx, v.read.machines, v.read.plans, k, v.r.URL.Query())
	return v.showBulk(q, err)
}

// doBulk does the confirmed action, or shows the confirmation page again with the error.
func (v *visit) doBulk(k bulk.Kind) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	q, err := bulk.Ask(v.ctx, v.read.machines, v.read.plans, k, form)
	if err == nil {
		err = q.Confirmed()
	}
	if err != nil {
		return v.showBulk(q, err)
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), bulkTimeout)
	defer cancel()
	b := bulkDoneBody{Question: q, ListURL: bulkList(form)}
	for _, r := range q.Do(ctx, v.write.runs, v.write.machines) {
		b.add(v, r)
	}
	if q.Request != "" {
		b.RunsLink = display.Link("/ui/runs", "filter", filter.Equals("request_id", q.Request))
	}
	if q.Typed != "" {
		b.Retyped = describe.Count(len(b.Left))
	}
	return v.page("bulk-done", q.Kind.Title+" "+q.Count(), "machines", b, nil)
}

func (b *bulkDoneBody) add(v *visit, r bulk.Result) {
	shown := bulkResult{Result: r, Outcome: "done"}
	switch {
	case r.Err == nil:
		b.Done++
	case v.unsure(r.Err):
		b.Unsure++
		shown.Outcome = "unknown"
	default:
		b.Refused++
		shown.Outcome = "refused"
	}
	if r.Err != nil {
		b.Left, shown.Message = append(b.Left, r.MachineID), httpjson.Message(r.Err)
	}
	b.Results = append(b.Results, shown)
}

// showBulk shows the confirmation page. An error without selected machines is shown on a page of
// its own.
func (v *visit) showBulk(q *bulk.Question, err error) error {
	if len(q.Rows) == 0 {
		return err
	}
	b := bulkBody{Question: q, Back: bulkList(q.Form)}
	if q.Kind.Key == bulk.StartPlan {
		plans, failed := v.allPlans()
		if failed != nil {
			return failed
		}
		runform.Sort(plans)
		b.Plans = plans
	}
	return v.page("bulk", q.Kind.Title+" "+q.Count(), "machines", b, err)
}

// bulkList returns the path of the list in which the machines were selected.
func bulkList(form url.Values) string {
	return display.Link("/ui/machines", "filter", form.Get("filter"))
}

// bulkKinds returns the actions that the user may call.
func (v *visit) bulkKinds() []bulk.Kind {
	return slices.DeleteFunc(bulk.Kinds(), func(k bulk.Kind) bool { return !v.may(k.Method) })
}
