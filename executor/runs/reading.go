package runs

import (
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// slowReading records that a machine is being read before an attempt, if that takes longer than
// NoteAfter. Otherwise the run would seem to wait in the queue.
type slowReading struct {
	a        *attempt
	since    time.Time
	deadline time.Time

	mu    sync.Mutex // held while a note is committed
	ended bool
	noted string
	at    time.Time // of the last note
}

// noteSlowReading records waiting, the text of a wait, once NoteAfter has passed. stop prevents
// later notes, and blocks until a note in progress is committed.
func (a *attempt) noteSlowReading(waiting string, deadline time.Time) (stop func()) {
	s := &slowReading{a: a, since: time.Now(), deadline: deadline}
	a.slow = s
	timer := time.AfterFunc(a.runner.cfg.NoteAfter, func() { s.note(waiting) })
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
	}
}

// note commits the wait. A wait with another error is committed less often. Nothing depends on a
// note, so one that fails is dropped: the intent fails alike if this leader cannot commit.
func (s *slowReading) note(waiting string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.noted != "" && time.Since(s.at) < causeEvery*s.a.runner.cfg.NoteAfter
	if s.ended || s.noted == waiting || again {
		return
	}
	note := &internalv1.NoteReading{
		RunId:      s.a.Op.RunID,
		Step:       s.a.Step.GetName(),
		Attempt:    s.a.Op.Attempt,
		WaitingFor: task.Truncate(task.MaxText, waiting),
		Since:      at(s.since),
		Deadline:   at(s.deadline),
	}
	r := s.a.runner
	_, err := task.Propose(s.a.Term, r.proposer, r.epoch,
		&internalv1.Command{Op: &internalv1.Command_NoteReading{NoteReading: note}})
	if err != nil {
		s.a.Logger.Debug("cannot record a slow reading", "step", s.a.Step.GetName(), "error", err)
		return
	}
	s.noted, s.at = waiting, time.Now()
}
