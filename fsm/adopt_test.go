package fsm_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// leaders lets one leader after another drive an attempt of a run, each with new time to observe.
type leaders struct {
	t       *testing.T
	p       *fsmtest.Peer
	run     string
	offset  time.Duration // of their clocks
	attempt *holdfastv1.Attempt
}

// take lets the next leader drive the attempt, and returns how long it may, by the recorded time.
func (l *leaders) take(gives time.Duration) time.Duration {
	l.t.Helper()
	l.p.Lead(l.p.Term + 1)
	own := l.p.Now.Add(l.offset)
	run := do(l.t, l.p, &internalv1.BeginAttempt{RunId: l.run, Step: "ssh", Attempt: 1,
		NextActionAt: timestamppb.New(own), Deadline: timestamppb.New(own.Add(gives))}).(*holdfastv1.Run)
	l.attempt = run.GetSteps()[0].GetAttempts()[0]
	return l.attempt.GetDeadline().AsTime().Sub(l.p.View().Meta().GetNow().AsTime())
}

// TestLeadersDoNotProlongAttempt adopts an attempt more often than each leader gives it time. It
// must end after its timeout and a fixed allowance, whatever the leaders' clocks show.
func TestLeadersDoNotProlongAttempt(t *testing.T) {
	const every, limit, allowance = 5 * time.Second, 10 * time.Minute, 5 * time.Minute
	for name, offset := range map[string]time.Duration{"right": 0, "behind": -9 * time.Minute, "ahead": 9 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			p, run := running(t)
			l := &leaders{t: t, p: p, run: run, offset: offset}
			l.take(limit)
			began := p.View().Meta().GetNow().AsTime()
			for l.attempt.GetEndingSince() == nil {
				p.Now = p.Now.Add(every)
				l.take(30 * time.Second)
				if took := p.Now.Sub(began); took > limit+allowance+time.Minute {
					t.Fatalf("after %v: %v has no end", took, l.attempt)
				}
			}
			took := l.attempt.GetEndingSince().AsTime().Sub(began)
			if took < limit+allowance || took > limit+allowance+2*every {
				t.Errorf("got an end after %v, want after %v", took, limit+allowance)
			}
			since := l.attempt.GetEndingSince()
			p.Now = p.Now.Add(time.Hour)
			l.take(30 * time.Second)
			same(t, "ending since, under a later leader", since, l.attempt.GetEndingSince())
		})
	}
}

// TestOutageDoesNotEndAttempt checks that time without a leader leaves an attempt the time that the
// new leader gives it.
func TestOutageDoesNotEndAttempt(t *testing.T) {
	p, run := running(t)
	l := &leaders{t: t, p: p, run: run}
	l.take(10 * time.Minute)
	for range 3 {
		p.Now = p.Now.Add(7 * 24 * time.Hour)
		if got := l.take(time.Minute); got != time.Minute || l.attempt.GetEndingSince() != nil {
			t.Errorf("after an outage: got %v, ending since %v", got, l.attempt.GetEndingSince())
		}
	}
}

// TestCanceledAttemptIsOnlyEnded checks that the leaders after a cancel share one time to end an
// attempt.
func TestCanceledAttemptIsOnlyEnded(t *testing.T) {
	p, run := running(t)
	l := &leaders{t: t, p: p, run: run}
	l.take(10 * time.Minute)
	do(t, p, &internalv1.CancelRun{RunId: run, Reason: "wrong machine"})
	l.take(time.Minute)
	first := l.attempt.GetEndingSince()
	p.Now = p.Now.Add(time.Minute)
	l.take(time.Minute)
	if first == nil {
		t.Fatal("after the cancel: got an attempt that continues")
	}
	same(t, "ending since", first, l.attempt.GetEndingSince())
}
