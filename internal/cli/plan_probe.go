package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// probePlan prints whether each step of a plan would pass on a machine. The exit code is 4 if
// one would fail.
func (a *app) probePlan(ctx context.Context, c *client.Client, o *output, r *holdfastv1.ProbePlanRequest) error {
	name := cmp.Or(r.GetPlanId(), r.GetPlan().GetPlanId())
	resp, err := c.Plans().ProbePlan(ctx, r)
	if err != nil {
		return failed(err, "probe plan %s on %s", name, r.GetMachineId())
	}
	bad, open := 0, 0
	t := render.NewTable("STEP", "KIND", "WHAT", "VERDICT", "SEEN")
	for _, p := range resp.GetProbes() {
		verdict := render.T("ok", render.Green)
		switch p.GetVerdict() {
		case holdfastv1.Probe_FAILS:
			bad++
			verdict = render.T("FAILS", render.Red)
		case holdfastv1.Probe_UNKNOWN, holdfastv1.Probe_VERDICT_UNSPECIFIED:
			open++
			verdict = render.T("unknown", render.Yellow)
		}
		t.Row(p.GetStep(), p.GetKind(), p.GetWhat(), verdict, render.Clean(p.GetMessage()))
	}
	if o.table() {
		if err := a.table(o, t); err != nil {
			return err
		}
	} else {
		raw, err := manifest.JSON(resp)
		if err != nil {
			return err
		}
		if err := a.document(o, raw); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &codeError{ExitConflict, fmt.Sprintf("plan %s would fail on %s: %d of %d probes say so", name,
			r.GetMachineId(), bad, len(resp.GetProbes()))}
	}
	a.note("plan %s: nothing that can be seen now is in its way on %s (%d probes, %d of them cannot tell); nothing "+
		"was changed", name, r.GetMachineId(), len(resp.GetProbes()), open)
	return nil
}
