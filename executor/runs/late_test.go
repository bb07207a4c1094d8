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

// stalling is a provider that suspends the leader between the confirmation of its term and the
// send, as SIGSTOP does.
type stalling struct {
	*fake.Provider
	at string // the first call of this kind stalls
	// slow means that the host delays the effect, instead of a stopped process, and that the leader
	// is then asked again.
	slow bool
	come chan struct{} // closed when the call has stalled
	goOn chan struct{} // closed to continue

	mu    sync.Mutex
	calls []string // leader and effect, in order
	err   error    // of the stalled call
}

func stall(l *lab, at string) *stalling {
	p := &stalling{Provider: fake.New(l.Fleet), at: at, come: make(chan struct{}), goOn: make(chan struct{})}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
	return p
}

// pass makes one effect. A suspended process notices nothing that happens meanwhile, so the call
// continues as if its context could not end.
func (p *stalling) pass(ctx context.Context, op providers.Op, name string, do func(context.Context) error) error {
	p.mu.Lock()
	p.calls = append(p.calls, fmt.Sprintf("%d %s", op.Epoch, name))
	stops := name == p.at
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
		ctx, err = providers.Confirmed(ctx, name)
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

// A leader is suspended between the confirmation of its term and the send of an effect. The next
// leader does the work. The first one must not send the effect when it resumes.
func TestStoppedBetweenConfirmAndSend(t *testing.T) {
	for _, tc := range []struct {
		at   string
		kind proto.Message
		want map[string]int
	}{
		// It is unknown whether the soft off was sent, so the next leader repeats it after the
		// grace time.
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
					t.Errorf("got the effect after the next leader had acted")
				}
				got := effects(l, id)
				if diff := cmp.Diff(before, got); diff != "" {
					t.Errorf("effects of the stopped leader (-before +after):\n%s", diff)
				}
				maps.DeleteFunc(got, func(e string, _ int) bool { return !slices.Contains(slices.Collect(maps.Keys(tc.want)), e) })
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("effects (-want +got):\n%s\n%v", diff, p.calls)
				}
				if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
					t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
				}
			})
		})
	}
}

// A slow leader that has not been replaced confirms its term again and then sends: being late does
// not fail the attempt.
func TestSameLeaderRetriesLateEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		p := stall(l, "hard-off")
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
		l.lead(quick())
		id := l.Start("m-1", "", "p", nil).GetRunId()
		<-p.come
		time.Sleep(fence.EffectValid) // sleep: fake clock
		close(p.goOn)
		run := l.Ended(id)
		if p.err == nil || providers.ClassOf(p.err) != providers.Late {
			t.Errorf("first send: got %v, want class late", p.err)
		}
		if diff := cmp.Diff([]string{"1 hard-off", "1 hard-off", "1 on"}, p.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"power_off hard-off": 1, "power_on ": 1}, effects(l, id)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
		if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
			t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
		}
	})
}

// A host needs longer before the effect than an effect may wait. A leader that still leads sends
// it, but a replaced one does not.
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
				time.Sleep(3 * fence.EffectValid) // sleep: fake clock
				close(p.goOn)
				run := l.Ended(id)
				synctest.Wait()
				first.Stop()
				if late := providers.ClassOf(p.err) == providers.Late; late != replaced {
					t.Errorf("slow send: got %v, want class late: %v", p.err, replaced)
				}
				if diff := cmp.Diff(want, p.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if got := effects(l, id)["reboot in band"]; got != 1 {
					t.Errorf("got %d reboots, want 1", got)
				}
				if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
					t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), n, run.GetError())
				}
			})
		})
	}
}

// A new leader observes an effect that is sent at the last moment, long after its election, because
// it does not poll before.
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
				time.Sleep(fence.EffectValid - time.Millisecond) // sleep: fake clock
				close(p.goOn)
				run := l.Ended(id)
				first.Stop()
				if p.err != nil {
					t.Fatalf("send in time: got %v", p.err)
				}
				if diff := cmp.Diff(tc.want, effects(l, id)); diff != "" {
					t.Errorf("effects (-want +got):\n%s\n%v", diff, p.calls)
				}
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
				}
			})
		})
	}
}

// A canceled run does not end, and its machine is not free, while an effect of it may still arrive.
func TestCanceledRunWaitsForLateEffects(t *testing.T) {
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
			t.Errorf("got the end after %s, but an effect may be sent for %s and takes up to %s", d, fence.EffectValid,
				providers.DeliverTime)
		}
		close(p.goOn)
		first.Stop()
		if got := effects(l, id); len(got) > 0 {
			t.Errorf("got effects after the cancel: %v", got)
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
			t.Errorf("run without an attempt: took %s", d)
		}
	})
}
