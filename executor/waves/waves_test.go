package waves

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// starts prepares starts as the server does. A machine may lack a capability, or have a stale
// preparation at first.
type starts struct {
	n       atomic.Int64
	lacking string
	broken  string // a machine whose start cannot be prepared now
	stale   map[string]bool
}

func (s *starts) PrepareStart(_ context.Context, start *internalv1.StartRun) error {
	start.RunId = fmt.Sprint("run-", s.n.Add(1))
	start.DefaultTimeoutSeconds = 20
	if start.GetMachineId() == s.broken {
		return errors.New("disk is full")
	}
	if start.GetMachineId() == s.lacking {
		start.MissingCapability, start.MissingForStep = "provider fake lacks a BMC", "s"
	}
	if s.stale[start.GetMachineId()] {
		delete(s.stale, start.GetMachineId())
		start.CheckedProvider = "former"
	}
	return nil
}

// lab has machines m-00 to m-(n-1) and a wave w on them.
type lab struct {
	*executortest.Lab
	starts *starts
	most   int32 // the highest number of active runs that was seen
}

func newLab(t *testing.T, n int, parallel, failures int32) *lab {
	t.Helper()
	l := &lab{Lab: executortest.New(t, fake.Config{}), starts: &starts{stale: map[string]bool{}}}
	l.Plan("p", executortest.Step("s", &holdfastv1.SshCommand{Command: "true"}))
	c := &internalv1.StartWave{Wave: &holdfastv1.Wave{WaveId: "w", PlanId: "p", MaxParallel: parallel,
		MaxFailures: failures}}
	for i := range n {
		c.MachineIds = append(c.MachineIds, fmt.Sprintf("m-%02d", i))
		l.Machine(c.GetMachineIds()[i])
	}
	l.Must(&internalv1.Command{Principal: "alice",
		Op: &internalv1.Command_StartWave{StartWave: c}})
	return l
}

// lead starts the next term, with a driver and an executor of runs.
func (l *lab) lead() *executortest.Leader {
	l.T.Helper()
	quick := runs.Config{Config: step.Config{PollMin: time.Millisecond, PollMax: 10 * time.Millisecond},
		RetryBase: 2 * time.Millisecond, RetryMax: 10 * time.Millisecond, LogFlush: 5 * time.Millisecond}
	return l.Lead(func(ctx context.Context, t leader.Term) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return runs.New(quick, l, l.FSM, l.Set).Run(ctx, t) })
		g.Go(func() error { return New(l, l.FSM, l.starts, slog.New(slog.DiscardHandler)).Run(ctx, t) })
		return g.Wait()
	})
}

func (l *lab) wave() *holdfastv1.Wave {
	w, _ := l.FSM.View().Wave("w")
	return w
}

// TestDriver checks that a wave ends with one run on each machine, within its limits, even if its
// leader dies right before or after the commit of a start.
func TestDriver(t *testing.T) {
	const machines = 12
	for _, tt := range []struct {
		name string
		die  int // the leader dies at this start; 0: it lives
		late bool
	}{
		{"one leader", 0, false}, {"dies before a commit", 5, false}, {"dies after a commit", 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, machines, 3, 1)
				l.starts.lacking, l.starts.stale["m-02"] = "m-04", true
				var mu sync.Mutex
				n, dead := 0, make(chan struct{})
				l.Commit = func(c *internalv1.Command) {
					if dies := func() bool {
						mu.Lock()
						defer mu.Unlock()
						l.most = max(l.most, l.wave().GetActive())
						if c.GetAdvanceWave() != nil {
							n++
						}
						return c.GetAdvanceWave() != nil && n == tt.die
					}(); !dies {
						return
					}
					close(dead)
					if !tt.late {
						time.Sleep(time.Second) // sleep: in the bubble; the leader is killed meanwhile
					}
				}
				first := l.lead()
				if tt.die > 0 {
					<-dead
					first.Kill()
					l.lead()
				}
				l.Until(func(v *fsm.View) bool {
					w, _ := v.Wave("w")
					return fsm.WaveEnded(w)
				})
				w := l.wave()
				if w.GetPhase() != holdfastv1.Wave_FAILED || w.GetSucceeded() != machines-1 || w.GetRefused() != 1 {
					t.Errorf("got %v, want FAILED with %d succeeded and 1 refused", w, machines-1)
				}
				if l.most > 3 {
					t.Errorf("%d runs were active at once, want at most 3", l.most)
				}
				for m := range l.FSM.View().WaveMachines("w") {
					var got []string
					for _, r := range l.FSM.View().MachineRuns(m.GetMachineId(), "") {
						got = append(got, r.GetRequestId()+" "+r.GetPrincipal())
					}
					want := []string{"w alice"}
					if m.GetMachineId() == "m-04" {
						want = nil
						if m.GetReason() != "CAPABILITY_MISSING" || m.GetError() == "" {
							t.Errorf("got reason %q and error %q, want CAPABILITY_MISSING", m.GetReason(), m.GetError())
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("runs of %s (-want +got):\n%s", m.GetMachineId(), diff)
					}
				}
			})
		})
	}
}

// TestDriverStops checks that no more runs start after too many failures.
func TestDriverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 5, 1, 0)
		l.starts.lacking = "m-02"
		l.lead()
		l.Until(func(v *fsm.View) bool {
			w, _ := v.Wave("w")
			return fsm.WaveEnded(w)
		})
		time.Sleep(time.Minute) // sleep: in the bubble; for starts that must not come
		if w := l.wave(); w.GetPhase() != holdfastv1.Wave_STOPPED || w.GetSucceeded() != 2 || w.GetNotStarted() != 2 {
			t.Errorf("got %v, want STOPPED with 2 succeeded and 2 not started", w)
		}
	})
}

// TestOneWaveFails checks that a wave whose start fails again and again does not hold up another.
func TestOneWaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 3, 1, 0)
		l.Machine("x")
		l.starts.broken = "x"
		l.Must(&internalv1.Command{Principal: "bob",
			Op: &internalv1.Command_StartWave{StartWave: &internalv1.StartWave{
				Wave: &holdfastv1.Wave{WaveId: "a", PlanId: "p"}, MachineIds: []string{"x"}}}})
		l.lead()
		time.Sleep(time.Minute) // sleep: in the bubble
		if w := l.wave(); w.GetPhase() != holdfastv1.Wave_SUCCEEDED {
			t.Errorf("got %v, want SUCCEEDED", w)
		}
		if w, _ := l.FSM.View().Wave("a"); w.GetWaiting() != 1 {
			t.Errorf("got %v, want its machine to wait", w)
		}
	})
}

// TestFormerLeader checks that the driver of a former leader ends and starts nothing.
func TestFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 2, 1, 0)
		epoch := l.Establish()
		err := New(l, l.FSM, l.starts, slog.New(slog.DiscardHandler)).Run(t.Context(), leader.Term{Epoch: epoch - 1})
		var refusal *fsm.Error
		if !errors.As(err, &refusal) || refusal.Reason != fsm.ReasonStaleEpoch || l.wave().GetActive() != 0 {
			t.Errorf("got error %v and %v, want %s and no active run", err, l.wave(), fsm.ReasonStaleEpoch)
		}
	})
}
