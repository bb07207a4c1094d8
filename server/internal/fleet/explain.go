package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ExplainMachine explains a machine's state: its cause, the event that the machine waits for,
// and the next actions of an operator.
func (s *Machines) ExplainMachine(
	ctx context.Context, r *holdfastv1.ExplainMachineRequest,
) (*holdfastv1.MachineExplanation, error) {
	v, m, err := s.machine(ctx, r.GetMachineId())
	if err != nil {
		return nil, err
	}
	e := &holdfastv1.MachineExplanation{
		MachineId:      m.GetMachineId(),
		EffectiveState: m.GetStatus().GetEffectiveState(),
		Banners:        m.GetStatus().GetBanners(),
		Conditions:     m.GetStatus().GetConditions(),
	}
	run := runToExplain(v, m)
	switch {
	case run == nil:
		explainIdle(e, m, nil, s.Time())
	case fsm.Ended(run):
		explainRun(e, run)
		explainIdle(e, m, run, s.Time())
	default:
		explainRun(e, run)
		explainActive(e, run, s.Time())
	}
	explainNetboot(e, v)
	explainWaves(e, v)
	return e, nil
}

// runToExplain returns the active run of a machine, or its last one.
func runToExplain(v *fsm.View, m *holdfastv1.Machine) *holdfastv1.Run {
	if id := m.GetStatus().GetActiveRunId(); id != "" {
		if run, ok := v.Run(id); ok {
			return run
		}
	}
	for _, run := range v.MachineRuns(m.GetMachineId(), "") {
		if !run.GetConcurrent() { // a console does not affect the machine's state
			return run
		}
	}
	return nil
}

// explainRun copies the current step and the last error of a run into the explanation.
func explainRun(e *holdfastv1.MachineExplanation, run *holdfastv1.Run) {
	e.RunId, e.Step = run.GetRunId(), run.GetCurrentStep()
	for _, st := range run.GetSteps() {
		if n := len(st.GetAttempts()); st.GetName() == run.GetCurrentStep() && n > 0 {
			last := st.GetAttempts()[n-1]
			e.Attempt, e.LastError = last.GetNumber(), last.GetError()
			if e.GetLastError() == "" && n > 1 { // this attempt is running, so the previous one failed
				e.LastError = st.GetAttempts()[n-2].GetError()
			}
		}
	}
	if msg := run.GetError().GetMessage(); msg != "" {
		e.LastError = msg
	}
}

// explainNetboot adds why the machine of a run gets no boot script, which the error of its attempt
// does not tell: that is a timeout.
func explainNetboot(e *holdfastv1.MachineExplanation, v *fsm.View) {
	i, ok := v.Install(e.GetMachineId())
	if !ok || i.GetNote() == "" || i.GetRunId() != e.GetRunId() || e.GetRunId() == "" {
		return
	}
	if e.GetLastError() == "" || i.GetAttempt() == e.GetAttempt() && fsm.InstallOpen(i) {
		e.LastError = i.GetNote()
	} else {
		e.LastError += "; " + i.GetNote()
	}
}

// worded returns a copy of a wait with its sentence, or nil for none.
func worded(w *holdfastv1.Wait) *holdfastv1.Wait {
	if w == nil {
		return nil
	}
	w = proto.CloneOf(w)
	w.Sentence = describe.Wait(w)
	return w
}

// runName returns the kind of a run as a word: "repave", "power-off".
func runName(run *holdfastv1.Run) string {
	return strings.ToLower(cmp.Or(run.GetType(), strings.TrimPrefix(run.GetPlanId(), "plan/")))
}

// explainActive explains a machine with an active run.
func explainActive(e *holdfastv1.MachineExplanation, run *holdfastv1.Run, now time.Time) {
	e.Wait = worded(run.GetWait())
	e.NextActionAt, e.QueuePosition = run.GetNextActionAt(), run.GetQueuePosition()
	if e.GetQueuePosition() == 0 { // in the queue, it is that of an earlier poll
		e.Deadline = describe.Deadline(run)
	}
	e.Summary = activeSummary(e, run, now)
	e.Suggestions = append(e.Suggestions, fmt.Sprintf("holdfast run logs %s -f", run.GetRunId()))
	if run.GetCancelRequestedAt() == nil {
		e.Suggestions = append(e.Suggestions, "holdfast run cancel "+run.GetRunId())
	}
	if describe.Ignores(run, now) != "" {
		e.Suggestions = append(e.Suggestions, "holdfast machine bmc-reset "+run.GetMachineId())
	}
}

// activeSummary returns the state of an active run in a few words.
func activeSummary(e *holdfastv1.MachineExplanation, run *holdfastv1.Run, now time.Time) string {
	text := runName(run)
	if run.GetCurrentStep() != text {
		text += " at " + run.GetCurrentStep()
	}
	reads, ignores := describe.Hangs(run, now), describe.Ignores(run, now)
	if run.GetPhase() == holdfastv1.Run_PENDING && reads == "" {
		text = runName(run) + " has not begun"
		if run.GetWait().GetKind() == holdfastv1.Wait_QUEUE {
			text = fmt.Sprintf("%s is number %d in the queue", runName(run), run.GetQueuePosition())
		}
	} else if e.GetAttempt() > 1 {
		text += fmt.Sprintf(", attempt %d of %d", e.GetAttempt(), attempts(run))
	}
	switch {
	case run.GetCancelRequestedAt() != nil:
		return text + ", is being canceled"
	case reads != "", ignores != "":
		return text + ": " + cmp.Or(reads, ignores)
	}
	if waits := describe.Wait(run.GetWait()); waits != "" {
		text += ", waits for " + waits
	}
	return text
}

// attempts returns the maximum number of attempts of the current step.
func attempts(run *holdfastv1.Run) int32 {
	for _, st := range run.GetSteps() {
		if st.GetName() == run.GetCurrentStep() {
			return st.GetMaxRetries() + 1
		}
	}
	return 1
}

// explainWaves adds the active waves of a machine.
func explainWaves(e *holdfastv1.MachineExplanation, v *fsm.View) {
	for _, w := range v.ActiveWaves() {
		m, ok := v.WaveMachine(w.GetWaveId(), e.GetMachineId())
		text := describe.WaveMachine(w, m)
		if !ok || text == "" {
			continue
		}
		e.Summary += "; " + describe.Cut(text, 2*mostCause)
		e.Suggestions = append(e.Suggestions, "holdfast wave get "+w.GetWaveId())
		if m.GetState() == holdfastv1.WaveMachine_WAITING && w.GetPhase() == holdfastv1.Wave_RUNNING &&
			e.GetWait() == nil {
			e.Wait = worded(&holdfastv1.Wait{Kind: holdfastv1.Wait_WAVE, Subject: w.GetWaveId(), Since: w.GetCreatedAt()})
		}
	}
}
