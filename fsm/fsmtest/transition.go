package fsmtest

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CheckStep returns the violations of the invariants in docs/reliability.md between a state
// and a later one, or nil: data that went backwards, vanished, or changed after its end.
func CheckStep(before, after *fsm.View) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	a, b := before.Meta(), after.Meta()
	if b.GetEpoch() < a.GetEpoch() || b.GetAppliedIndex() < a.GetAppliedIndex() ||
		b.GetLastRunEvent() < a.GetLastRunEvent() ||
		b.GetFirstRunEvent() < a.GetFirstRunEvent() || b.GetFeatureLevel() < a.GetFeatureLevel() ||
		b.GetNow().AsTime().Before(a.GetNow().AsTime()) {
		add("something went backwards: %v, then %v", a, b)
	}
	for _, old := range before.Runs("") {
		r, ok := after.Run(old.GetRunId())
		if !ok {
			add("run %s has vanished", old.GetRunId())
			continue
		}
		if err := checkRunStep(old, r); err != nil {
			errs = append(errs, err)
		}
		if got, want := LogText(after, r.GetRunId()), LogText(before, r.GetRunId()); r.GetArchive() != nil {
			if got != "" {
				add("run %s is archived, and its log is still here", r.GetRunId())
			}
		} else if len(got) < len(want) || got[:len(want)] != want {
			add("the log of run %s has changed", r.GetRunId())
		}
	}
	for m := range before.Machines("") {
		if err := checkHistoryStep(before, after, m.GetMachineId()); err != nil {
			errs = append(errs, err)
		}
	}
	events, err := after.RunEvents(a.GetLastRunEvent(), int(b.GetLastRunEvent()-a.GetLastRunEvent()))
	if err != nil {
		add("read the new events: %w", err)
	}
	for i, e := range events {
		if e.GetCursor() != a.GetLastRunEvent()+uint64(i)+1 || e.GetIndex() <= a.GetAppliedIndex() ||
			e.GetIndex() > b.GetAppliedIndex() {
			add("event %d of index %d comes after event %d of index %d",
				e.GetCursor(), e.GetIndex(), a.GetLastRunEvent(), a.GetAppliedIndex())
		}
	}
	return errors.Join(append(errs, checkAccessStep(before, after), checkFleetStep(before, after))...)
}

func checkRunStep(old, r *holdfastv1.Run) error {
	if fsm.Ended(old) {
		if !sameButLogForm(old, r) {
			return fmt.Errorf("run %s has changed after its end:\n%v\n%v", r.GetRunId(), old, r)
		}
		return nil
	}
	if r.GetPhase() < old.GetPhase() {
		return fmt.Errorf("run %s went from %s to %s", r.GetRunId(), old.GetPhase(), r.GetPhase())
	}
	if r.GetMachineId() != old.GetMachineId() || r.GetRequestId() != old.GetRequestId() ||
		r.GetType() != old.GetType() || r.GetPlanId() != old.GetPlanId() ||
		!proto.Equal(r.GetCreatedAt(), old.GetCreatedAt()) || len(r.GetSteps()) != len(old.GetSteps()) ||
		r.GetLogBytes() < old.GetLogBytes() {
		return fmt.Errorf("run %s has become another one:\n%v\n%v", r.GetRunId(), old, r)
	}
	for i, was := range old.GetSteps() {
		s := r.GetSteps()[i]
		if s.GetState() < was.GetState() || s.GetName() != was.GetName() ||
			len(s.GetAttempts()) < len(was.GetAttempts()) ||
			(was.GetState() >= holdfastv1.StepStatus_SUCCEEDED && !proto.Equal(was, s)) {
			return fmt.Errorf("run %s: step %s went from %v to %v", r.GetRunId(), was.GetName(), was, s)
		}
		for n, a := range was.GetAttempts() {
			now := s.GetAttempts()[n]
			if !fsm.Open(a) && !proto.Equal(a, now) {
				return fmt.Errorf("run %s: attempt %d of step %s has changed after its end",
					r.GetRunId(), a.GetNumber(), s.GetName())
			}
			for k, v := range a.GetEvidenceBefore() {
				if now.GetEvidenceBefore()[k] != v {
					return fmt.Errorf("run %s: attempt %d of step %s has lost its first evidence",
						r.GetRunId(), a.GetNumber(), s.GetName())
				}
			}
		}
	}
	return nil
}

// checkHistoryStep checks that a machine's history only grew, with consecutive numbers. The random
// logs are too short to reach its limits.
func checkHistoryStep(before, after *fsm.View, machine string) error {
	old, now := slices.Collect(before.History(machine, 0)), slices.Collect(after.History(machine, 0))
	if len(now) < len(old) {
		return fmt.Errorf("history of %s has %d entries, had %d", machine, len(now), len(old))
	}
	for i, e := range now {
		if e.GetSequence() != uint64(len(now)-i) {
			return fmt.Errorf("history of %s: entry %d from the end is numbered %d", machine, i, e.GetSequence())
		}
	}
	for i, e := range now[len(now)-len(old):] {
		if !proto.Equal(e, old[i]) {
			return fmt.Errorf("history of %s: entry %d has changed", machine, e.GetSequence())
		}
	}
	return nil
}

// LogText returns a run's whole log.
func LogText(v *fsm.View, run string) string {
	var text []byte
	for c := range v.RunLog(run, 0) {
		text = append(text, c.GetData()...)
	}
	return string(text)
}

// sameButLogForm compares ended runs. The log of the later one may have been compressed or
// archived.
func sameButLogForm(a, b *holdfastv1.Run) bool {
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	for _, r := range []*holdfastv1.Run{x, y} {
		r.LogCompacted, r.QueuePosition = false, 0
		if b.GetArchive() != nil && (a.GetArchive() == nil || a.GetArchive().GetDroppedAt() == nil) {
			r.Archive, r.Steps, r.Revision = nil, nil, 0
		}
	}
	return proto.Equal(x, y)
}

// sameButLog compares a run with its last event. Its log may have grown, and a report about
// an observed install may have moved the deadline.
func sameButLog(a, b *holdfastv1.Run) bool {
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	for _, r := range []*holdfastv1.Run{x, y} {
		r.LogBytes, r.LogConcurrentBytes, r.LogTruncated, r.Revision = 0, 0, false, 0
		if r.GetObserved() && !fsm.Ended(r) {
			r.Deadline, r.NextActionAt = nil, nil
		}
	}
	return sameButLogForm(x, y)
}
