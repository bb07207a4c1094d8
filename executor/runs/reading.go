package runs

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/task"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
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
	noted *holdfastv1.Wait
	at    time.Time // of the last note
}

// noteSlowReading records a wait once NoteAfter has passed. stop prevents
// later notes, and blocks until a note in progress is committed.
func (a *attempt) noteSlowReading(w *holdfastv1.Wait, deadline time.Time) (stop func()) {
	s := &slowReading{a: a, since: time.Now(), deadline: deadline}
	a.slow = s
	timer := time.AfterFunc(a.runner.cfg.NoteAfter, func() { s.note(w) })
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
	}
}

// note commits the wait. A wait with another error is committed less often. Nothing depends on a
// note, so one that fails is dropped: the intent fails alike if this leader cannot commit.
func (s *slowReading) note(w *holdfastv1.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.noted != nil && time.Since(s.at) < causeEvery*s.a.runner.cfg.NoteAfter
	if s.ended || proto.Equal(s.noted, w) || again {
		return
	}
	timed := proto.CloneOf(w)
	timed.Since, timed.Deadline = at(s.since), at(s.deadline)
	note := &internalv1.NoteReading{
		RunId:   s.a.Op.RunID,
		Step:    s.a.Step.GetName(),
		Attempt: s.a.Op.Attempt,
		Wait:    timed,
	}
	r := s.a.runner
	_, err := task.Propose(s.a.Term, r.proposer, r.epoch,
		&internalv1.Command{Op: &internalv1.Command_NoteReading{NoteReading: note}})
	if err != nil {
		s.a.Logger.Debug("cannot record a slow reading", "step", s.a.Step.GetName(), "error", err)
		return
	}
	s.noted, s.at = w, time.Now()
}
