package runs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/fence"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// stalling is a provider that suspends the leader between the confirmation of its term
// and the send, as SIGSTOP would.
type stalling struct {
	*fake.Provider
	at string // the first call of this kind stalls
	// it is no process that was stopped, but a host that takes its time before the effect, and then
	// the leader is asked
	slow bool
	come chan struct{} // closed when it has come there
	goOn chan struct{} // closed to let it go on

	mu    sync.Mutex
	calls []string // by whom and what, in order
	err   error    // of the call that stalled
}

func stall(l *lab, at string) *stalling {
	p := &stalling{Provider: fake.New(l.Fleet), at: at, come: make(chan struct{}), goOn: make(chan struct{})}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
	return p
}

// pass is one effect. A suspended process notices nothing that happens meanwhile, so the
// call continues as if its context could not end.
func (p *stalling) pass(ctx context.Context, op providers.Op, what string, do func(context.Context) error) error {
	p.mu.Lock()
	p.calls = append(p.calls, fmt.Sprintf("%d %s", op.Epoch, what))
	stops := what == p.at
	if stops {
		p.at = ""
	}
	p.mu.Unlock()
	if !stops {
		return do(ctx)
	}
	close(p.come)
	<-p.goOn
	ctx = context.WithoutCancel(ctx)
	var err error
	if p.slow {
		ctx, err = providers.Confirmed(ctx, what)
	}
	if err == nil {
		err = do(ctx)
	}
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	return err
}

func (p *stalling) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	return p.pass(ctx, op, string(a), func(ctx context.Context) error { return p.Provider.SetPower(ctx, op, m, a) })
}

func (p *stalling) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	return p.pass(ctx, op, "boot", func(ctx context.Context) error { return p.Provider.SetBootDevice(ctx, op, m, d) })
}

func (p *stalling) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, s providers.InstallSpec,
) error {
	return p.pass(ctx, op, "install", func(ctx context.Context) error { return p.Provider.StartInstall(ctx, op, m, s) })
}

func (p *stalling) StartCommand(
	ctx context.Context, op providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	return p.pass(ctx, op, "command",
		func(ctx context.Context) error { return p.Provider.StartCommand(ctx, op, m, token, c) })
}

func effects(l *lab, run string) map[string]int {
	got := map[string]int{}
	for _, e := range l.Fleet.Effects("", run, 0) {
		got[e.Effect+" "+e.Detail]++
	}
	return got
}

// A leader is suspended between the confirmation of its term and the send of an effect.
// The next leader does the work. When the first one resumes, it must not send the effect.
func TestStoppedBetweenConfirmAndSend(t *testing.T) {
	for _, tc := range []struct {
		at   string
		kind proto.Message
		want map[string]int
	}{
		// It is unknown whether the soft off was sent, so the next leader repeats it
		// after the grace time.
		{"soft-off", &holdfastv1.Reboot{Mode: "bmc"}, map[string]int{"power_off soft-off": 1, "power_on ": 1}},
		{"hard-off", &holdfastv1.Reboot{Mode: "bmc", Force: true}, map[string]int{"power_off hard-off": 1, "power_on ": 1}},
		{"on", &holdfastv1.Reboot{Mode: "bmc", Force: true}, map[string]int{"power_off hard-off": 1, "power_on ": 1}},
		{"soft-off", &holdfastv1.RmaAction{}, map[string]int{"power_off soft-off": 1}},
		{"boot", &holdfastv1.SetNetboot{Mode: "PXE"}, map[string]int{"boot_device PXE": 1}},
		{"install", &holdfastv1.RepaveImage{Image: "debian-13"}, map[string]int{"install debian-13": 1}},
		{"command", &holdfastv1.Reboot{Mode: "inband"}, map[string]int{"reboot in band": 1}},
	} {
		t.Run(fmt.Sprintf("%T/%s", tc.kind, tc.at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				p := stall(l, tc.at)
				l.Machine("m-1")
				l.Plan("p", stepOf("s", tc.kind))
				first := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-p.come
				l.lead(quick())
				run := l.Ended(id)
				before := effects(l, id)
				close(p.goOn)
				synctest.Wait()
				first.Stop()
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.err == nil {
					t.Errorf("the effect was sent after the next leader had acted")
				}
				got := effects(l, id)
				if diff := cmp.Diff(before, got); diff != "" {
					t.Errorf("effects of the leader that had been stopped (-before +after):\n%s", diff)
				}
				maps.DeleteFunc(got, func(e string, _ int) bool { return !slices.Contains(slices.Collect(maps.Keys(tc.want)), e) })
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("effects (-want +got):\n%s\n%v", diff, p.calls)
				}
				if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
					t.Errorf("run is %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
				}
			})
		})
	}
}

// A slow leader that has not been replaced confirms its term again and then sends: being
// late does not fail the attempt.
func TestLateEffectIsSentAgainByTheSameLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		p := stall(l, "hard-off")
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
		l.lead(quick())
		id := l.Start("m-1", "", "p", nil).GetRunId()
		<-p.come
		time.Sleep(fence.EffectValid) // sleep: the bubble's clock
		close(p.goOn)
		run := l.Ended(id)
		if p.err == nil || providers.ClassOf(p.err) != providers.Late {
			t.Errorf("the first send: got %v, want one of class late", p.err)
		}
		if diff := cmp.Diff([]string{"1 hard-off", "1 hard-off", "1 on"}, p.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"power_off hard-off": 1, "power_on ": 1}, effects(l, id)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
		if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
			t.Errorf("run is %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
		}
	})
}

// A host needs longer before the effect than an effect may wait. A leader that still
// leads sends at once, one that was replaced does not.
func TestSlowPreparation(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced=%v", replaced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				p := stall(l, "command")
				p.slow = true
				l.Machine("m-1")
				l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "inband"}))
				first := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-p.come
				want := []string{"1 command"}
				if replaced {
					l.lead(quick())
					l.Ended(id)
					want = append(want, "2 command")
				}
				time.Sleep(3 * fence.EffectValid) // sleep: the bubble's clock
				close(p.goOn)
				run := l.Ended(id)
				synctest.Wait()
				first.Stop()
				if late := providers.ClassOf(p.err) == providers.Late; late != replaced {
					t.Errorf("the send that was slow: got %v, want one of class late: %v", p.err, replaced)
				}
				if diff := cmp.Diff(want, p.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if got := effects(l, id)["reboot in band"]; got != 1 {
					t.Errorf("%d reboots, want 1", got)
				}
				if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
					t.Errorf("run is %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
				}
			})
		})
	}
}

// A new leader observes an effect that is sent at the last moment, long after its
// election: it does not poll before that moment has passed.
func TestSentAtTheLastMoment(t *testing.T) {
	for _, tc := range []struct {
		at   string
		kind proto.Message
		want map[string]int
	}{
		{"soft-off", &holdfastv1.Reboot{Mode: "bmc"}, map[string]int{"power_off soft-off": 1, "power_on ": 1}},
		{"on", &holdfastv1.Reboot{Mode: "bmc", Force: true}, map[string]int{"power_off hard-off": 1, "power_on ": 1}},
		{"soft-off", &holdfastv1.RmaAction{}, map[string]int{"power_off soft-off": 1, "identify true": 1}},
		{"boot", &holdfastv1.SetNetboot{Mode: "PXE"}, map[string]int{"boot_device PXE": 1}},
	} {
		t.Run(fmt.Sprintf("%T/%s", tc.kind, tc.at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				p := stall(l, tc.at)
				l.Machine("m-1")
				l.Plan("p", stepOf("s", tc.kind))
				first := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-p.come
				l.lead(quick())
				time.Sleep(fence.EffectValid - time.Millisecond) // sleep: the bubble's clock
				close(p.goOn)
				run := l.Ended(id)
				first.Stop()
				if p.err != nil {
					t.Fatalf("the send was in time, and failed: %v", p.err)
				}
				if diff := cmp.Diff(tc.want, effects(l, id)); diff != "" {
					t.Errorf("effects (-want +got):\n%s\n%v", diff, p.calls)
				}
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run is %s: %v", run.GetPhase(), run.GetError())
				}
			})
		})
	}
}

// A canceled run is not ended, and its machine is not free, while an effect of it may
// still arrive.
func TestCanceledRunIsOutlivedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		p := stall(l, "hard-off")
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
		first := l.lead(quick())
		id := l.Start("m-1", "", "p", nil).GetRunId()
		<-p.come
		began := time.Now()
		l.lead(quick())
		l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: id}}})
		l.Ended(id)
		if d := time.Since(began); d < fence.Age {
			t.Errorf("the run was ended after %s: an effect may be sent for %s and takes up to %s", d, fence.EffectValid,
				providers.DeliverTime)
		}
		close(p.goOn)
		first.Stop()
		if got := effects(l, id); len(got) > 0 {
			t.Errorf("effects after the run was canceled: %v", got)
		}
	})
}

// A run without an open attempt does not wait.
func TestNextLeaderBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
		id := l.Start("m-1", "", "p", nil).GetRunId()
		began := time.Now()
		l.lead(quick())
		l.Ended(id)
		if d := time.Since(began); d >= fence.Age {
			t.Errorf("a run that was not begun took %s", d)
		}
	})
}
