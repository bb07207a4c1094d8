package runs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/step"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestSlowReading checks that a run whose BMC hangs says so before its attempt begins, and that its
// error and its attempt have the time since then.
func TestSlowReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{Faults: fake.Faults{Hang: []string{"power_state"}}})
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.Power{Action: "on"})
		s.TimeoutSeconds, s.MaxRetries = 60, proto.Int32(0)
		l.Plan("p", s)
		l.lead(quick())
		began := time.Now()
		run := l.Start("m-1", "", "p", nil).GetRunId()
		got := l.Wait(run, "a slow reading", func(r *holdfastv1.Run) bool {
			w := r.GetWait()
			return w.GetKind() == holdfastv1.Wait_READING && w.GetSubject() == "BMC" && w.GetValue() == "power of m-1"
		})
		if d := got.GetWait().GetSince().AsTime().Sub(began); d < 0 || d > 100*time.Millisecond {
			t.Errorf("it waits since %s after the start, want the start of the reading", d)
		}
		if d := got.GetWait().GetDeadline().AsTime().Sub(began).Round(time.Second); d != step.PrepareTime {
			t.Errorf("got a deadline %s after the start, want %s", d, step.PrepareTime)
		}
		if got.GetPhase() != holdfastv1.Run_PENDING || got.GetQueuePosition() != 0 {
			t.Errorf("got %s at position %d of the queue, want PENDING outside of it",
				got.GetPhase(), got.GetQueuePosition())
		}
		const want = "reading power of m-1: BMC did not answer within 30s: "
		end := l.Ended(run)
		if e := end.GetError().GetMessage(); !strings.HasPrefix(e, want) {
			t.Errorf("got error %q, want %q", e, want)
		}
		at := end.GetSteps()[0].GetAttempts()[0]
		took := at.GetFinishedAt().AsTime().Sub(at.GetStartedAt().AsTime()).Round(time.Second)
		if took != step.PrepareTime || !end.GetStartedAt().AsTime().Equal(at.GetStartedAt().AsTime()) {
			t.Errorf("the attempt took %s and began at %v, the run at %v; want %s from the start of the reading", took,
				at.GetStartedAt().AsTime(), end.GetStartedAt().AsTime(), step.PrepareTime)
		}
	})
}

// TestQuickReading checks that a reading that is answered in time is not recorded.
func TestQuickReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{Faults: fake.Faults{Latency: fake.Duration(100 * time.Millisecond)}})
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.Power{Action: "on"}))
		l.lead(quick())
		run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
		for i, ev := range l.events(t) {
			if s := ev.GetSnapshot(); s.GetRunId() == run.GetRunId() && s.GetWait().GetKind() == holdfastv1.Wait_READING {
				t.Errorf("event %d: got a note %v of a quick reading", i, s.GetWait())
			}
		}
	})
}

func (l *lab) events(t *testing.T) []*holdfastv1.RunEvent {
	t.Helper()
	all, err := l.FSM.View().RunEvents(0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
