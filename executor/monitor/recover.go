package monitor

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// recoverer is the principal of automatic runs.
const recoverer = "recovery"

const (
	resetPlan = "plan/bmc-reset"
	// recoverGap is the minimum time between two automatic restarts of BMCs, over all
	// providers. If many BMCs are silent at once, they have a common cause that restarts
	// do not fix.
	recoverGap = time.Minute
	// recoverPatience is the minimum time from the end of a run to an automatic restart
	// of the BMC: an unanswered press may still be in flight.
	recoverPatience = 2 * time.Minute
	newestRuns      = 8 // number of runs of the machine to check
)

// rescue starts a run that restarts the BMC of a machine if a poll has found it silent.
// The run is like one of an operator: it excludes other runs on the machine, it is
// recorded, a new leader continues it, and its failure raises NeedsIntervention. Its
// request id contains the hour, so it is started at most once an hour, whichever peer
// leads.
func (mon *term) rescue(ctx context.Context, m *holdfastv1.Machine, p providers.Provider, f providers.Facts) {
	_, resets := p.(providers.BMCResetter)
	if !f.BMCSilent || !resets || !mon.quiet(m, p, time.Now()) || !mon.recovers.Allow() {
		return
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	now := time.Now().UTC()
	cmd := &internalv1.Command{
		Epoch:     mon.epoch,
		Principal: recoverer,
		Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{
			RunId:           fmt.Sprintf("run-%x", id),
			MachineId:       m.GetMachineId(),
			RequestId:       recoverer + "-bmc-reset-" + now.Format("2006-01-02T15"),
			PlanId:          resetPlan,
			CheckedProvider: fsm.ProviderOf(m),
		}},
	}
	if _, err := mon.proposer.Apply(ctx, cmd); err != nil {
		if ctx.Err() == nil { // if it was started after all, the next poll finds it
			mon.cfg.Logger.Warn("starting a restart of a silent BMC failed, will retry",
				"machine", m.GetMachineId(), "error", err)
		}
		return
	}
	mon.cfg.Logger.Warn("BMC accepts connections but does not answer, restarting it",
		"machine", m.GetMachineId(), "request", cmd.GetStartRun().GetRequestId())
}

// quiet reports whether the BMC of a machine may be restarted: the machine has no active
// run, it does not need intervention, and everything that a run or an earlier leader may
// have sent to its BMC has taken effect.
func (mon *term) quiet(m *holdfastv1.Machine, p providers.Provider, now time.Time) bool {
	if m.GetStatus().GetActiveRunId() != "" || condition(m, condIntervention).GetStatus() {
		return false
	}
	settle := recoverPatience
	if s, ok := p.(providers.Settler); ok {
		settle = max(settle, 2*s.Settle(m))
	}
	if now.Sub(mon.began) < settle {
		return false
	}
	newest := 0
	for _, r := range mon.state.View().MachineRuns(m.GetMachineId(), "") {
		if !fsm.Ended(r) || now.Sub(r.GetFinishedAt().AsTime()) < settle { // a console is not the active run
			return false
		}
		if newest++; newest == newestRuns {
			break
		}
	}
	return true
}
