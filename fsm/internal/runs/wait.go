package runs

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Await makes a run wait from now on. The caller stores the run.
func Await(t *core.Tx, run *holdfastv1.Run, w *holdfastv1.Wait) {
	w.Since = t.Now
	run.Wait = w
}

// SameWait reports whether two waits are for the same event. Their causes and times do not count.
func SameWait(a, b *holdfastv1.Wait) bool {
	return a.GetKind() == b.GetKind() && a.GetSubject() == b.GetSubject() && a.GetValue() == b.GetValue() &&
		a.GetDetail() == b.GetDetail() && a.GetPress() == b.GetPress() && a.GetNumber() == b.GetNumber() &&
		a.GetPool() == b.GetPool()
}

// observedWait sets the wait that the executor reports for an open attempt. Another cause does not
// restart it.
func observedWait(t *core.Tx, run *holdfastv1.Run, reported *holdfastv1.Wait) {
	if reported == nil {
		return
	}
	had, w := run.GetWait(), shallow.Wait(reported)
	w.Sentence = ""
	Await(t, run, w)
	if SameWait(had, w) {
		w.Since = had.GetSince()
	}
}

// putWait stores a run of which only the wait is new. Its event has no message: the wait has all of
// it.
func putWait(t *core.Tx, run *holdfastv1.Run) { PutRun(t, run, "") }

// heldBy returns what a pending run must wait for: the release of its plan, or a place in the ramp.
// It returns nil if the run may begin. The plan may be nil.
func heldBy(s *core.State, p *holdfastv1.Plan, run *holdfastv1.Run) *holdfastv1.Wait {
	if b := plans.BrakeOf(p, run.GetPool()); b != nil {
		return &holdfastv1.Wait{Kind: holdfastv1.Wait_BRAKE, Subject: p.GetPlanId(), Pool: b.GetPool(),
			Cause: b.GetFailure()}
	}
	c := schema.CohortOf(run)
	if most := int(p.GetMaxActive()); most > 0 {
		if runningCount(s, c.FleetKey()) < most {
			return nil
		}
		return &holdfastv1.Wait{Kind: holdfastv1.Wait_PLAN_LIMIT, Subject: c.Plan, Value: c.Image, Number: int32(most)}
	}
	limit := rampLimit(p, c)
	if limit == 0 || runningCount(s, c.Key()) < limit {
		return nil
	}
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_RAMP, Subject: c.Plan, Value: c.Image, Number: int32(limit),
		Pool: c.Pool}
}

// withHold returns a copy of a pending run that waits for the end of its hold, or the run itself if
// nothing holds it.
func withHold(s *core.State, run, now *holdfastv1.Run) *holdfastv1.Run {
	plan, _ := s.Plans.Get(run.GetPlanId())
	held := heldBy(s, plan, now)
	if held == nil {
		return run
	}
	held.Since = run.GetWait().GetSince()
	run = shallow.Run(run)
	run.Wait = held
	return run
}

// Readable returns a state of a run, such as that of an event, for people: its wait is that of Run,
// with the sentence that word returns for it. It has no position in the queue, which changes
// without an event.
func (v *View) Readable(run *holdfastv1.Run, word func(*holdfastv1.Wait) string) *holdfastv1.Run {
	if run.GetWait() == nil {
		return run
	}
	if run.GetPhase() == holdfastv1.Run_PENDING && run.GetWait().GetKind() == holdfastv1.Wait_QUEUE {
		if now, ok := v.s.Runs.Get(run.GetRunId()); ok && now.GetPhase() == holdfastv1.Run_PENDING {
			run = withHold(v.s, run, now)
		}
	}
	run = shallow.Run(run)
	run.Wait = shallow.Wait(run.GetWait())
	run.Wait.Sentence = word(run.GetWait())
	return run
}
