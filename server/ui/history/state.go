package history

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

const (
	// countPause is the time for which a count of all machines is used, as a multiple of its
	// duration. So counting takes at most 1 % of a core, for any number of machines.
	countPause = 100
	// eventBatch is the maximum number of events that are read from the state at once.
	eventBatch = 256
)

// stateSampler samples this peer's own state.
type stateSampler struct {
	state State
	store *series.Store
	now   func() time.Time

	counts  fsm.StateCounts
	counted any       // the mark of the machines when they were counted; nil if they never were
	again   time.Time // time of the next count

	cursor uint64    // events up to here are counted
	until  time.Time // runs that ended up to here are counted; zero if none are
}

// take adds a sample of the machines and of the runs.
func (s *stateSampler) take(ctx context.Context) {
	v, now := s.state.View(), s.now()
	s.countMachines(v, now)
	for i, n := range s.counts {
		if i > 0 {
			s.store.Add(machines+holdfastv1.EffectiveState_Value(i).String(), series.Last, now, float64(n))
		}
	}
	s.countRuns(ctx, v, now)
}

// countMachines counts the machines, if any has changed and the last count was long enough ago.
func (s *stateSampler) countMachines(v *fsm.View, now time.Time) {
	mark := v.MachinesMark()
	if s.counted == mark || now.Before(s.again) {
		return
	}
	s.counts, s.counted = v.CountStates(), mark
	s.again = now.Add(countPause * s.now().Sub(now))
}

// countRuns adds the runs that have ended since the last sample, each at the time of its end.
// The first sample adds all those whose events are still kept, so that a peer that has just
// started also has the runs before.
func (s *stateSampler) countRuns(ctx context.Context, v *fsm.View, now time.Time) {
	from := s.until
	for ctx.Err() == nil {
		events, err := v.RunEvents(s.cursor, eventBatch)
		if err != nil {
			s.skipEvents(v)
			from = time.Time{} // the skipped events may have had runs
			continue
		}
		if len(events) == 0 {
			break
		}
		if from.IsZero() {
			from = events[0].GetTs().AsTime()
		}
		for _, e := range events {
			s.cursor = e.GetCursor()
			if r := e.GetSnapshot(); fsm.Ended(r) {
				at := r.GetFinishedAt().AsTime()
				if at.After(now) { // by the clock of another peer
					at = now
				}
				s.store.Add(runs+r.GetPhase().String(), series.Sum, at, 1)
			}
		}
	}
	if from.IsZero() {
		from = now
	}
	for _, p := range endPhases() {
		s.store.Cover(runs+p.String(), from, now)
	}
	s.until = now
}

// skipEvents moves the cursor to the first event that is kept, or, if a restored backup has
// fewer events, to the last one.
func (s *stateSampler) skipEvents(v *fsm.View) {
	if s.cursor > v.LastRunEvent() {
		s.cursor = v.LastRunEvent()
		return
	}
	s.cursor = v.Meta().GetFirstRunEvent() - 1
}

// endPhases returns the phases of ended runs.
func endPhases() []holdfastv1.Run_Phase {
	return []holdfastv1.Run_Phase{holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED}
}
