package fsmtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Check returns the violations of the invariants in docs/reliability.md by a state, joined,
// or nil.
func Check(v *fsm.View) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	active := map[string]string{}   // active run by machine
	consoles := map[string]string{} // open console by machine
	requests := map[string]string{}
	for _, r := range v.Runs("") {
		if err := checkRun(r); err != nil {
			errs = append(errs, err)
		}
		on := active
		if r.GetConcurrent() {
			on = consoles
		}
		if other, dup := on[r.GetMachineId()]; dup && !fsm.Ended(r) {
			add("machine %s has two active runs: %s and %s", r.GetMachineId(), other, r.GetRunId())
		}
		if !fsm.Ended(r) {
			on[r.GetMachineId()] = r.GetRunId()
		}
		key := r.GetMachineId() + "/" + r.GetRequestId()
		if other, dup := requests[key]; dup {
			add("request %s names two runs: %s and %s", key, other, r.GetRunId())
		}
		requests[key] = r.GetRunId()
		if named, ok := v.RunByRequest(r.GetMachineId(), r.GetRequestId()); !ok || named.GetRunId() != r.GetRunId() {
			add("request %s names %q, want %s", key, named.GetRunId(), r.GetRunId())
		}
		noPlan := r.GetObserved() && r.GetPlanId() == "" // the node had no workflow
		if p, ok := v.Plan(r.GetPlanId()); !noPlan && (!ok || !p.GetReferenced()) {
			add("run %s refers to plan %s, which is gone or not marked", r.GetRunId(), r.GetPlanId())
		}
	}
	owners := map[string]string{}
	for m := range v.Machines("") {
		if err := checkMachine(m, active[m.GetMachineId()]); err != nil {
			errs = append(errs, err)
		}
		delete(active, m.GetMachineId())
		delete(consoles, m.GetMachineId())
		for _, mac := range m.GetSpec().GetMacAddresses() {
			if other, dup := owners[mac]; dup {
				add("MAC %s belongs to %s and to %s", mac, other, m.GetMachineId())
			}
			owners[mac] = m.GetMachineId()
		}
	}
	for _, on := range []map[string]string{active, consoles} {
		for m, r := range on {
			add("run %s is active on machine %s, which is gone", r, m)
		}
	}
	return errors.Join(append(errs, checkRunEvents(v), checkAccess(v), checkFleet(v), checkWaves(v),
		checkSessions(v))...)
}

// checkMachine checks that no two facets of a machine contradict each other
// (docs/concepts.md).
func checkMachine(m *holdfastv1.Machine, activeRun string) error {
	s := m.GetStatus()
	node, phase := s.GetNodeState(), s.GetPhase()
	needs := false
	for _, c := range s.GetConditions() {
		needs = needs || c.GetType() == "NeedsIntervention" && c.GetStatus()
	}
	fault := ""
	switch {
	case s.GetActiveRunId() != activeRun:
		fault = fmt.Sprintf("its active run is %q", activeRun)
	case (phase == holdfastv1.MachineStatus_PROVISIONING) != (activeRun != ""):
		fault = "PROVISIONING goes with an active run"
	// It stays active during a run that installs nothing.
	case (phase == holdfastv1.MachineStatus_IN_SERVICE) != (node == holdfastv1.Node_ACTIVE) &&
		(phase != holdfastv1.MachineStatus_PROVISIONING || node != holdfastv1.Node_ACTIVE):
		fault = "IN_SERVICE goes with active"
	case (phase == holdfastv1.MachineStatus_RETIRED) != (node == holdfastv1.Node_RETIRED):
		fault = "RETIRED goes with retired"
	case node == holdfastv1.Node_INSTALLING && phase != holdfastv1.MachineStatus_PROVISIONING:
		fault = "installing implies PROVISIONING"
	case node == holdfastv1.Node_INSTALL_FAILED && (phase != holdfastv1.MachineStatus_MAINTENANCE || !needs) &&
		phase != holdfastv1.MachineStatus_PROVISIONING:
		fault = "install_failed implies MAINTENANCE and NeedsIntervention"
	case phase == holdfastv1.MachineStatus_PHASE_UNSPECIFIED || node == holdfastv1.Node_NODE_STATE_UNSPECIFIED:
		fault = "a facet is not set"
	default:
		return nil
	}
	return fmt.Errorf("machine %s: %s, but it is %s, %s, run %q",
		m.GetMachineId(), fault, phase, node, s.GetActiveRunId())
}

// checkRun checks that the parts of a run are consistent.
func checkRun(r *holdfastv1.Run) error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("run %s: %s", r.GetRunId(), fmt.Sprintf(format, args...)))
	}
	if len(r.GetRunId()) == 0 || (len(r.GetSteps()) == 0) != (r.GetArchive() != nil) {
		add("has no id, or no steps although it is not archived, or steps although it is")
	}
	if r.GetArchive() != nil && !fsm.Ended(r) {
		add("is archived and %s", r.GetPhase())
	}
	open := 0
	for i, s := range r.GetSteps() {
		var next holdfastv1.StepStatus_State
		if i+1 < len(r.GetSteps()) {
			next = r.GetSteps()[i+1].GetState()
		}
		if s.GetState() != holdfastv1.StepStatus_SUCCEEDED && next > holdfastv1.StepStatus_WAITING {
			add("step %s is %s, the one after it %s", s.GetName(), s.GetState(), next)
		}
		for n, a := range s.GetAttempts() {
			if a.GetNumber() != int32(n+1) {
				add("step %s: attempt %d is numbered %d", s.GetName(), n+1, a.GetNumber())
			}
			if fsm.Open(a) {
				open++
				if s.GetState() != holdfastv1.StepStatus_RUNNING || s.GetName() != r.GetCurrentStep() ||
					n+1 != len(s.GetAttempts()) {
					add("step %s is %s with attempt %d open, the current step is %s",
						s.GetName(), s.GetState(), a.GetNumber(), r.GetCurrentStep())
				}
			}
			for e := 1; e < len(a.GetEpochs()); e++ {
				if a.GetEpochs()[e-1] >= a.GetEpochs()[e] {
					add("step %s: attempt %d has epochs %v", s.GetName(), a.GetNumber(), a.GetEpochs())
				}
			}
		}
		if n := len(s.GetAttempts()); s.GetRetryCount() != int32(max(0, n-1)) || n > int(max(0, s.GetMaxRetries()))+1 {
			add("step %s has %d attempts, retry_count %d, max_retries %d",
				s.GetName(), n, s.GetRetryCount(), s.GetMaxRetries())
		}
		if (s.GetState() == holdfastv1.StepStatus_WAITING) != (len(s.GetAttempts()) == 0) {
			add("step %s is %s with %d attempts", s.GetName(), s.GetState(), len(s.GetAttempts()))
		}
	}
	switch {
	case open > 1:
		add("%d attempts are open", open)
	case open == 1 && r.GetPhase() != holdfastv1.Run_RUNNING:
		add("an attempt is open, but it is %s", r.GetPhase())
	}
	ended := fsm.Ended(r)
	if ended != (r.GetFinishedAt() != nil) ||
		(ended && r.GetPhase() != holdfastv1.Run_SUCCEEDED) != (r.GetError() != nil) {
		add("is %s, finished at %v with error %v", r.GetPhase(), r.GetFinishedAt(), r.GetError())
	}
	if w := r.GetWait(); ended != (w == nil) || w != nil && (w.GetKind() == 0 || w.GetSince() == nil) {
		add("is %s with wait %v", r.GetPhase(), w)
	} else if w.GetSentence() != "" {
		add("is stored with sentence %q of its wait", w.GetSentence())
	}
	return errors.Join(errs...)
}

// checkRunEvents checks that cursors are consecutive, and that the last event of a run shows its
// present state. The log is ignored, because appends to it add no events.
func checkRunEvents(v *fsm.View) error {
	var errs []error
	first := v.Meta().GetFirstRunEvent()
	last := map[string]*holdfastv1.Run{}
	cursor := max(first, 1) - 1
	events, err := v.RunEvents(cursor, int(v.LastRunEvent()))
	if err != nil {
		return fmt.Errorf("read all events: %w", err)
	}
	for _, e := range events {
		if cursor++; e.GetCursor() != cursor {
			return fmt.Errorf("event %d comes after %d", e.GetCursor(), cursor-1)
		}
		last[e.GetSnapshot().GetRunId()] = e.GetSnapshot()
	}
	if cursor != v.LastRunEvent() {
		errs = append(errs, fmt.Errorf("events end at %d, want %d", cursor, v.LastRunEvent()))
	}
	for _, r := range v.Runs("") {
		e, ok := last[r.GetRunId()]
		if !ok && first > 1 {
			continue // no longer kept
		}
		if !ok || !sameButLog(e, r) {
			errs = append(errs, fmt.Errorf("run %s is not as its last event says", r.GetRunId()))
		}
	}
	return errors.Join(errs...)
}
