package runs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/executor/turnstile"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Of the runs that may begin, the urgent ones come first. Otherwise runs begin in the order of
// their arrival, and no provider exceeds its limit.
func TestQueueProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			run *holdfastv1.Run
			at  line
		}
		var (
			q       = newQueue()
			waiting []entry // in order of arrival
			running []line
			held    = map[string]bool{}
			class   = map[string]turnstile.Class{"p": turnstile.Ordinary, "q": turnstile.Urgent, "r": turnstile.Ordinary}
			most    = map[string]int{"b": 1, "c": 2} // "a" has no limit
			count   = func(provider string) (n int) {
				for _, at := range running {
					if at.provider == provider {
						n++
					}
				}
				return n
			}
			name = func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		)
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch name("do", "add", "add", "next", "next", "done", "remove", "hold") {
			case "add":
				run := &holdfastv1.Run{RunId: fmt.Sprint("r", i), PlanId: name("plan", "p", "q", "r")}
				e := entry{run, line{fsm.CohortOf(run), name("provider", "a", "b", "c"), class[run.GetPlanId()]}}
				q.add(e.run, e.at)
				waiting = append(waiting, e)
			case "remove":
				if len(waiting) > 0 {
					n := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
					q.remove(waiting[n].run)
					waiting = append(waiting[:n:n], waiting[n+1:]...)
				}
			case "done":
				if len(running) > 0 {
					q.done(running[0])
					running = running[1:]
				}
			case "hold":
				held[name("plan", "p", "q", "r")] = rapid.Bool().Draw(t, "held")
			case "next":
				want := -1
				for n, e := range waiting {
					limit := most[e.at.provider]
					if held[e.run.GetPlanId()] || limit > 0 && count(e.at.provider) >= limit {
						continue
					}
					if want < 0 || e.at.class < waiting[want].at.class {
						want = n
					}
				}
				at, ok := q.next(func(at line, _ int) bool { return !held[at.cohort.Plan] }, func(p string) int { return most[p] })
				if ok != (want >= 0) {
					t.Fatalf("got a run: %t, want %t", ok, want >= 0)
				}
				if !ok {
					continue
				}
				e := waiting[want]
				if got := q.take(at); got.run != e.run || at != e.at {
					t.Fatalf("got run %v of %v, want %v of %v", got.run, at, e.run, e.at)
				}
				waiting, running = append(waiting[:want:want], waiting[want+1:]...), append(running, at)
			}
		}
	})
}

// A plan that fails alike on several machines is held until it is released. Other plans continue.
func TestBrake(t *testing.T) {
	l := newLab(t, fake.Config{})
	bad := stepOf("s", &holdfastv1.SshCommand{Command: "fail"})
	bad.MaxRetries = proto.Int32(0)
	l.Plan("bad", bad)
	l.Plan("good", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
	l.lead(quick())
	for i := range 5 {
		m := fmt.Sprint("m-", i)
		l.Machine(m)
		if run := l.Ended(l.Start(m, "", "bad", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_FAILED {
			t.Fatalf("run %d: got %v, want FAILED", i, run)
		}
	}
	l.Machine("m-5")
	l.Machine("m-6")
	held := l.Start("m-5", "", "bad", nil)
	if run := l.Ended(l.Start("m-6", "", "good", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("run of another plan: got %v, want SUCCEEDED", run)
	}
	run, _ := l.FSM.View().Run(held.GetRunId())
	if run.GetPhase() != holdfastv1.Run_PENDING || run.GetWait().GetKind() != holdfastv1.Wait_BRAKE {
		t.Fatalf("sixth run: got %v, want it to wait for a release", run)
	}
	l.lead(quick()) // a new leader holds the plan too
	l.Machine("m-7")
	l.Ended(l.Start("m-7", "", "good", nil).GetRunId())
	if run, _ := l.FSM.View().Run(held.GetRunId()); run.GetPhase() != holdfastv1.Run_PENDING {
		t.Fatalf("under the next leader: got %v, want PENDING", run)
	}
	l.Must(&internalv1.Command{Op: &internalv1.Command_ReleasePlan{ReleasePlan: &internalv1.ReleasePlan{PlanId: "bad"}}})
	l.Ended(held.GetRunId())
}

// A run that is about to begin when its plan is held keeps its position in the queue, and begins
// after the release.
func TestBrakeBeforeIntent(t *testing.T) {
	l := newLab(t, fake.Config{})
	bad := stepOf("s", &holdfastv1.SshCommand{Command: "fail"})
	bad.MaxRetries = proto.Int32(0)
	l.Plan("bad", bad)
	held := func() bool {
		p, _ := l.FSM.View().Plan("bad")
		return p.GetBrake() != nil
	}
	var ids []string
	for i := range 7 {
		m := fmt.Sprint("m-", i)
		l.Machine(m)
		ids = append(ids, l.Start(m, "", "bad", nil).GetRunId())
	}
	cfg := quick()
	var begun atomic.Int32
	cfg.Boundary = func(at Boundary, _ string) {
		if at != BeforeIntent {
			return
		}
		if n := begun.Add(1); n == 6 || n == 7 {
			for changed := l.FSM.Changed(); !held(); changed = l.FSM.Changed() {
				<-changed
			}
		}
	}
	l.lead(cfg)
	waitFor(t, func() bool { return begun.Load() >= 7 && held() })
	l.Plan("good", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
	l.Machine("m-good")
	l.Ended(l.Start("m-good", "", "good", nil).GetRunId()) // the executor continues
	waiting := 0
	for _, id := range ids {
		if run, _ := l.FSM.View().Run(id); run.GetPhase() == holdfastv1.Run_PENDING {
			waiting++
			if len(run.GetSteps()[0].GetAttempts()) != 0 || run.GetWait().GetKind() != holdfastv1.Wait_BRAKE {
				t.Errorf("got run %v, want it to wait for a release", run)
			}
		}
	}
	if waiting != 2 {
		t.Errorf("got %d waiting runs, want 2", waiting)
	}
	l.Must(&internalv1.Command{Op: &internalv1.Command_ReleasePlan{ReleasePlan: &internalv1.ReleasePlan{PlanId: "bad"}}})
	for _, id := range ids {
		l.Ended(id)
	}
}

// No provider has more active runs than its configuration allows.
func TestProviderLimit(t *testing.T) {
	l := newLab(t, fake.Config{CommandTime: fake.Duration(20 * time.Millisecond)})
	factory := func(string, json.RawMessage, *slog.Logger) (providers.Provider, error) { return fake.New(l.Fleet), nil }
	set, err := providers.NewSet(map[string]providers.Factory{"fake": factory},
		map[string]providers.Config{"fake": {Kind: "fake", MaxActive: 2}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.Set = set
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
	var ids []string
	for i := range 12 {
		m := fmt.Sprint("m-", i)
		l.Machine(m)
		ids = append(ids, l.Start(m, "", "p", nil).GetRunId())
	}
	l.lead(quick())
	for _, id := range ids {
		l.Wait(id, "ended, two at work at most", func(r *holdfastv1.Run) bool {
			busy := 0
			for run := range l.FSM.View().ActiveRuns() {
				if run.GetPhase() == holdfastv1.Run_RUNNING {
					busy++
				}
			}
			if busy > 2 {
				t.Fatalf("got %d active runs, want at most 2", busy)
			}
			return fsm.Ended(r)
		})
	}
}
