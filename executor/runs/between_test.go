package runs

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/fence"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

const commitTime = 10 * time.Millisecond // of the tests below

// withPlaces returns a configuration with few places. Logs are committed with outcomes only,
// because a commit that sleeps has the log's lock, for which synctest cannot wait.
func withPlaces(places int) Config {
	cfg := quick()
	cfg.places, cfg.LogFlush = places, time.Hour
	return cfg
}

// transition returns the run whose command belongs to the time between two attempts, and "" for
// other commands.
func transition(cmd *internalv1.Command) string {
	switch op := cmd.GetOp().(type) {
	case *internalv1.Command_BeginAttempt:
		return op.BeginAttempt.GetRunId()
	case *internalv1.Command_EndAttempt:
		if op.EndAttempt.GetStep() != "last" {
			return op.EndAttempt.GetRunId()
		}
	}
	return ""
}

// However many runs there are, only so many commit an outcome or an intent at the same time, and
// all of them succeed.
func TestRunsBetweenStepsAreBounded(t *testing.T) {
	for _, places := range []int{1, 3} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				var between, most atomic.Int64
				l.Commit = func(cmd *internalv1.Command) {
					if transition(cmd) == "" {
						return
					}
					if n := between.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(commitTime) // sleep: fake clock
					between.Add(-1)
				}
				l.Plan("p", stepOf("first", &holdfastv1.Inspect{}),
					stepOf("second", &holdfastv1.Power{Action: "cycle", Force: true}), stepOf("last", &holdfastv1.Inspect{}))
				var ids []string
				for i := range 20 {
					m := fmt.Sprint("m-", i)
					l.Machine(m)
					ids = append(ids, l.Start(m, "", "p", nil).GetRunId())
				}
				ld := l.lead(withPlaces(places))
				for _, id := range ids {
					if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
						t.Errorf("run: got %v, want SUCCEEDED", run)
					}
				}
				if got := most.Load(); got != int64(places) {
					t.Errorf("got at most %d runs between two steps at once, want %d", got, places)
				}
				ld.Stop()
			})
		})
	}
}

// stuckLead starts a leader with one place for each class. A run of the machine m-stuck holds its
// place until release is called: the commit of its intent does not end.
func stuckLead(l *lab) (ld *tenure, release func()) {
	released := make(chan struct{})
	l.Commit = func(cmd *internalv1.Command) {
		if strings.HasPrefix(cmd.GetBeginAttempt().GetRunId(), "run-m-stuck-") {
			<-released
		}
	}
	l.Plan("query", stepOf("last", &holdfastv1.Inspect{}))
	l.Machine("m-stuck")
	return l.lead(withPlaces(1)), sync.OnceFunc(func() { close(released) })
}

// A run that destroys data, or a console, begins even if a query holds the last place. Another
// query waits in the queue.
func TestUrgentRunsDoNotWaitForQueries(t *testing.T) {
	for name, urgent := range map[string]proto.Message{
		"an installation": &holdfastv1.RepaveImage{},
		"a console":       &holdfastv1.SerialConsole{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				ld, release := stuckLead(l)
				l.Start("m-stuck", "", "query", nil)
				synctest.Wait()
				l.Plan("urgent", stepOf("last", urgent))
				l.Machine("m-1")
				l.Machine("m-2")
				query := l.Start("m-1", "", "query", nil).GetRunId()
				id := l.Start("m-2", "", "urgent", nil).GetRunId()
				time.Sleep(time.Second) // sleep: fake clock
				if run, _ := l.FSM.View().Run(id); run.GetPhase() == holdfastv1.Run_PENDING {
					t.Errorf("urgent run: got %v, want it to have begun", run)
				}
				if run, _ := l.FSM.View().Run(query); run.GetPhase() != holdfastv1.Run_PENDING {
					t.Errorf("query: got %v, want PENDING", run)
				}
				release()
				if run := l.Ended(query); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("query: got %v, want SUCCEEDED", run)
				}
				ld.Stop()
			})
		})
	}
}

// A machine that answers slowly does not hold up the runs of others.
func TestSlowMachineLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{Machines: map[string]fake.Faults{"m-1": {Latency: fake.Duration(2 * time.Second)}}})
		l.Plan("p", stepOf("first", &holdfastv1.Power{Action: "on"}), stepOf("last", &holdfastv1.Inspect{}))
		l.Machine("m-1")
		l.Machine("m-2")
		slow := l.Start("m-1", "", "p", nil).GetRunId()
		fast := l.Start("m-2", "", "p", nil).GetRunId()
		began := time.Now()
		ld := l.lead(withPlaces(1))
		l.Ended(fast)
		if took := time.Since(began); took < observeFor || took > time.Second {
			t.Errorf("got the other run ended after %s, want after %s and within 1s", took, observeFor)
		}
		if run := l.Ended(slow); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run of the slow machine: got %v, want SUCCEEDED", run)
		}
		ld.Stop()
	})
}

// While all places are held, a run that is canceled ends, and an attempt that is out of time ends
// with its success. A new term has all places.
func TestNoPlace(t *testing.T) {
	const latency, wait = time.Second, 3 * time.Second // an inspection is one call
	for _, tt := range []struct {
		name  string
		do    func(l *lab, id string)
		after time.Duration // from the begin of the first step to its end
		want  holdfastv1.Run_Phase
	}{
		{"canceled", (*lab).cancel, wait, holdfastv1.Run_CANCELED},
		{"out of time", func(*lab, string) {}, 10 * time.Second, holdfastv1.Run_SUCCEEDED},
		{"out of time, then canceled", func(l *lab, id string) {
			time.Sleep(10 * time.Second) // sleep: fake clock, until it waits for the next step
			l.cancel(id)
		}, 10 * time.Second, holdfastv1.Run_CANCELED},
		{"the term ends", func(l *lab, _ string) { l.lead(withPlaces(1)) }, wait + fence.Age + latency,
			holdfastv1.Run_SUCCEEDED},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{Machines: map[string]fake.Faults{"m-1": {Latency: fake.Duration(latency)}}})
				ld, release := stuckLead(l)
				l.Plan("p", stepOf("first", &holdfastv1.Inspect{}), stepOf("last", &holdfastv1.Inspect{}))
				l.Machine("m-1")
				id := l.Start("m-1", "", "p", nil).GetRunId()
				synctest.Wait()
				l.Start("m-stuck", "", "query", nil)
				time.Sleep(wait) // sleep: fake clock, until the first step has done its work
				if tt.name == "the term ends" {
					ld.Kill()
					release()
					<-ld.Done
				}
				tt.do(l, id)
				run := l.Wait(id, "past its first step", func(r *holdfastv1.Run) bool {
					return r.GetSteps()[0].GetFinishedAt() != nil
				})
				first := run.GetSteps()[0]
				if s := first.GetState(); s != holdfastv1.StepStatus_SUCCEEDED {
					t.Errorf("first step: got %v, want SUCCEEDED", s)
				}
				if took := first.GetFinishedAt().AsTime().Sub(first.GetStartedAt().AsTime()); took != tt.after {
					t.Errorf("first step: got %s, want %s", took, tt.after)
				}
				if tt.want != holdfastv1.Run_CANCELED {
					release()
				}
				if run := l.Ended(id); run.GetPhase() != tt.want {
					t.Errorf("run: got %v, want %s", run, tt.want)
				}
				release()
			})
		})
	}
}
