package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// recoverer is who asks for the runs that nobody has asked for.
const recoverer = "recovery"

const (
	resetPlan = "plan/bmc-reset"
	// recoverGap is the least time between two BMCs that are restarted without being asked for, of
	// all providers: what makes many of them need it at once is not mended by restarting them.
	recoverGap = time.Minute
	// recoverPatience is how long a run has to be over before the BMC of its machine is restarted:
	// a press whose answer did not come may still be on its way.
	recoverPatience = 2 * time.Minute
	newestRuns      = 8 // of a machine that are looked at
)

// rescue starts the run that restarts the BMC of a machine, where a look says that it is time to.
// It is a run like that of an operator, so nothing else is at work on the machine meanwhile, it is
// recorded, a new leader goes on with it, and its failure is what calls for a person. Its request
// id is of the hour: whoever leads, it is started once in it.
func (o *lookout) rescue(ctx context.Context, m *holdfastv1.Machine, p providers.Provider, f providers.Facts) {
	_, resets := p.(providers.BMCResetter)
	if !f.BMCStuck || !resets || !o.quiet(m, p, time.Now()) || !o.recovers.Allow() {
		return
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // it never fails
	now := time.Now().UTC()
	cmd := &internalv1.Command{FeatureLevel: 1, Epoch: o.epoch, Principal: recoverer, Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{
		RunId: "run-" + hex.EncodeToString(id[:]), MachineId: m.GetMachineId(), RequestId: recoverer + "-bmc-reset-" + now.Format("2006-01-02T15"),
		PlanId: resetPlan, CheckedProvider: fsm.ProviderOf(m)}}}
	if _, err := o.proposer.Apply(ctx, cmd); err != nil {
		if ctx.Err() == nil { // the next look sees whether it was
			o.cfg.Logger.Warn("the BMC does not answer, and the run that restarts it was not started", "machine", m.GetMachineId(), "error", err)
		}
		return
	}
	o.cfg.Logger.Warn("the BMC takes connections and does not answer: a run restarts it", "machine", m.GetMachineId(), "request", cmd.GetStartRun().GetRequestId())
}

// quiet reports whether nothing is in doubt about a machine: nobody is at work on it, nobody was
// called for it, and all that a run or an earlier leader may have sent to its BMC has shown.
func (o *lookout) quiet(m *holdfastv1.Machine, p providers.Provider, now time.Time) bool {
	if m.GetStatus().GetActiveRunId() != "" || condition(m, condIntervention).GetStatus() {
		return false
	}
	settle := recoverPatience
	if s, ok := p.(providers.Settler); ok {
		settle = max(settle, 2*s.Settle(m))
	}
	if now.Sub(o.began) < settle {
		return false
	}
	newest := 0
	for _, r := range o.state.View().MachineRuns(m.GetMachineId(), "") {
		if !fsm.Ended(r) || now.Sub(r.GetFinishedAt().AsTime()) < settle { // a console stands beside the active run
			return false
		}
		if newest++; newest == newestRuns {
			break
		}
	}
	return true
}
