package runs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestDefaultPlansSucceed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		typ   string
		phase holdfastv1.MachineStatus_Phase
	}{
		{"REPAVE", holdfastv1.MachineStatus_IN_SERVICE},
		{"REBOOT", holdfastv1.MachineStatus_READY},
		{"RMA", holdfastv1.MachineStatus_RMA},
		{"NET_RECONFIG", holdfastv1.MachineStatus_READY},
	} {
		t.Run(tc.typ, func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.Machine("m-1")
			l.lead(quick())
			var params map[string]string
			if tc.typ == "NET_RECONFIG" {
				params = map[string]string{"net_config": "eth0: dhcp"}
			}
			run := l.Ended(l.Start("m-1", tc.typ, "", params).GetRunId())
			if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Fatalf("got phase %s (%s), want SUCCEEDED\n%s", run.GetPhase(), run.GetError(), l.Log(run.GetRunId(), "system"))
			}
			m, _ := l.FSM.View().Machine("m-1")
			if m.GetStatus().GetPhase() != tc.phase || m.GetStatus().GetActiveRunId() != "" {
				t.Errorf("machine: got %s with run %q, want %s with none", m.GetStatus().GetPhase(), m.GetStatus().GetActiveRunId(),
					tc.phase)
			}
			for _, s := range run.GetSteps() {
				if n := len(s.GetAttempts()); n != 1 {
					t.Errorf("step %s: got %d attempts, want 1", s.GetName(), n)
				}
			}
		})
	}
}

// A leader dies at every boundary of every kind of step. The next one completes the run, and no
// destructive effect happens twice.
func TestAdoptAtEveryBoundary(t *testing.T) {
	for _, k := range []struct {
		name string
		kind proto.Message
		want map[string]int // destructive effects
	}{
		{"ssh", &holdfastv1.SshCommand{Script: "echo one\nsleep 0.05\necho two\n"}, map[string]int{}},
		{"reboot-bmc", &holdfastv1.Reboot{Mode: "bmc"}, map[string]int{"s/1/power_off": 1}},
		{"reboot-inband", &holdfastv1.Reboot{Mode: "inband"}, nil},
		{"netboot", &holdfastv1.SetNetboot{Mode: "PXE"}, map[string]int{}},
		{"repave", &holdfastv1.RepaveImage{Image: "debian-13"}, map[string]int{"s/1/install": 1}},
		{"join", &holdfastv1.KubeadmJoin{ClusterRef: "c"}, map[string]int{}},
		{"net", &holdfastv1.NetReconfig{Config: "eth0: dhcp"}, map[string]int{}},
		{"rma", &holdfastv1.RmaAction{Reason: "fan"}, map[string]int{"s/1/power_off": 1}},
		{"power-off", &holdfastv1.Power{Action: "off"}, map[string]int{"s/1/power_off": 1}},
		{"power-cycle", &holdfastv1.Power{Action: "cycle"}, map[string]int{"s/1/power_off": 1}},
		{"inspect", &holdfastv1.Inspect{}, map[string]int{}},
	} {
		for _, b := range Boundaries() {
			t.Run(k.name+"/"+string(b), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, fake.Config{PowerTime: fake.Duration(10 * time.Millisecond),
						BootTime: fake.Duration(40 * time.Millisecond), InstallTime: fake.Duration(60 * time.Millisecond)})
					l.Machine("m-1")
					l.Plan("p", stepOf("s", k.kind))
					cfg := quick()
					var first *tenure
					ready := make(chan struct{})
					cfg.Boundary = func(at Boundary, _ string) {
						<-ready
						if at == b {
							first.Kill()
						}
					}
					first = l.lead(cfg)
					close(ready)
					id := l.Start("m-1", "", "p", nil).GetRunId()
					<-first.Done
					if r, _ := l.FSM.View().Run(id); fsm.Ended(r) {
						t.Fatalf("run ended before the leader died at %s: %v", b, r)
					}
					l.lead(quick())
					run := l.Ended(id)
					if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
						t.Fatalf("got phase %s (%s), want SUCCEEDED\n%s", run.GetPhase(), run.GetError(), l.Log(id, "system"))
					}
					if n := len(run.GetSteps()[0].GetAttempts()); n != 1 {
						t.Errorf("got %d attempts, want 1, which the next leader adopts", n)
					}
					if got := l.Destructive(id); k.want != nil && !cmp.Equal(got, k.want) {
						t.Errorf("destructive effects: got %v, want %v\n%s", got, k.want, l.Log(id, "system"))
					}
					if k.name == "ssh" {
						if got := l.Log(id, "stdout"); strings.Count(got, "one\n") != strings.Count(got, "two\n") ||
							!strings.Contains(got, "two\n") {
							t.Errorf("output: got %q, want each line once", got)
						}
					}
				})
			})
		}
	}
}

func TestRetriesAreCountedAndEnd(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	s := stepOf("s", &holdfastv1.SshCommand{Command: "fail"})
	s.MaxRetries = proto.Int32(2)
	l.Plan("p", s, stepOf("never", &holdfastv1.SetNetboot{Mode: "PXE"}))
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
	st := run.GetSteps()[0]
	if run.GetPhase() != holdfastv1.Run_FAILED || len(st.GetAttempts()) != 3 || st.GetRetryCount() != 2 {
		t.Fatalf("got phase %s, %d attempts, %d retries, want FAILED, 3, 2", run.GetPhase(), len(st.GetAttempts()),
			st.GetRetryCount())
	}
	if got := run.GetSteps()[1].GetState(); got != holdfastv1.StepStatus_WAITING {
		t.Errorf("step after the failed one: got %s, want WAITING", got)
	}
	m, _ := l.FSM.View().Machine("m-1")
	if m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE || len(m.GetStatus().GetBanners()) != 1 {
		t.Errorf("machine: got %v, want MAINTENANCE with a banner", m.GetStatus())
	}
}

func TestErrorsThatEndRun(t *testing.T) {
	for _, tc := range []struct {
		name     string
		faults   fake.Faults
		attempts int
		class    string
	}{
		{"auth, twice to avoid a locked account", fake.Faults{Auth: true}, 2, "auth"},
		{"gone, without a retry", fake.Faults{Gone: true}, 1, "gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, fake.Config{Faults: tc.faults})
			l.Machine("m-1")
			s := stepOf("s", &holdfastv1.SetNetboot{Mode: "PXE"})
			s.MaxRetries = proto.Int32(9)
			l.Plan("p", s)
			l.lead(quick())
			run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
			if got := len(run.GetSteps()[0].GetAttempts()); got != tc.attempts || run.GetError().GetErrorClass() != tc.class {
				t.Errorf("got %d attempts, class %q, want %d, %q (%v)", got, run.GetError().GetErrorClass(), tc.attempts,
					tc.class, run.GetError())
			}
		})
	}
}

// An answer of 200 OK is not evidence: if the BMC lies, the step fails and reports its wait.
func TestLieIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{Faults: fake.Faults{Lie: []string{"*"}}})
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true})
		s.TimeoutSeconds, s.MaxRetries = 1, proto.Int32(0)
		l.Plan("p", s)
		l.lead(quick())
		run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
		if e := run.GetError(); run.GetPhase() != holdfastv1.Run_FAILED || e.GetErrorClass() != "timeout" ||
			!strings.Contains(e.GetMessage(), "the power to be off") {
			t.Errorf("got error %v, want a timeout with the condition", e)
		}
	})
}

func TestFailedEffectsAreRetried(t *testing.T) {
	l := newLab(t, fake.Config{Faults: fake.Faults{Fail: 1, OnlyFirst: 1}})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "bmc", Force: true}))
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("got phase %s: %v", run.GetPhase(), run.GetError())
	}
	if n := l.Destructive(run.GetRunId()); len(n) != 1 {
		t.Errorf("destructive effects: got %v, want one press of power off", n)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cancelRun := func(l *lab, id string) {
		l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: id,
			Reason: "changed my mind"}}})
	}
	hang := fake.Config{Faults: fake.Faults{Hang: []string{"*"}}}
	for _, tc := range []struct {
		name  string
		fleet fake.Config
		kind  proto.Message
		when  func(*holdfastv1.Run) bool
		want  holdfastv1.MachineStatus_Phase
	}{
		{"while a command runs", fake.Config{}, &holdfastv1.SshCommand{Script: "sleep 60"},
			func(r *holdfastv1.Run) bool { return r.GetPhase() == holdfastv1.Run_RUNNING },
			holdfastv1.MachineStatus_MAINTENANCE},
		{"while the BMC hangs and nothing has begun", hang, &holdfastv1.Reboot{Mode: "bmc"},
			func(*holdfastv1.Run) bool { return true }, holdfastv1.MachineStatus_READY},
		{"while it waits for a retry", fake.Config{Faults: fake.Faults{Fail: 1}}, &holdfastv1.SetNetboot{Mode: "PXE"},
			func(r *holdfastv1.Run) bool { return r.GetSteps()[0].GetRetryCount() > 0 },
			holdfastv1.MachineStatus_MAINTENANCE},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tc.fleet)
				l.Machine("m-1")
				s := stepOf("s", tc.kind)
				s.MaxRetries = proto.Int32(90)
				l.Plan("p", s)
				l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				l.Wait(id, "ready to be canceled", tc.when)
				began := time.Now()
				cancelRun(l, id)
				run := l.Ended(id)
				if run.GetPhase() != holdfastv1.Run_CANCELED || run.GetError().GetReason() != "Canceled" {
					t.Fatalf("got phase %s, error %v, want CANCELED", run.GetPhase(), run.GetError())
				}
				if d := time.Since(began); d > 3*time.Second {
					t.Errorf("cancel: took %s", d)
				}
				m, _ := l.FSM.View().Machine("m-1")
				if got := m.GetStatus().GetPhase(); got != tc.want {
					t.Errorf("phase of the machine: got %s, want %s", got, tc.want)
				}
			})
		})
	}
	t.Run("canceled between terms", func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.Machine("m-1")
		l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "sleep 60"}))
		first := l.lead(quick())
		id := l.Start("m-1", "", "p", nil).GetRunId()
		waitFor(t, func() bool { return len(l.Fleet.Effects("", id, 0)) > 0 })
		first.Kill()
		<-first.Done
		cancelRun(l, id)
		l.lead(quick())
		if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_CANCELED {
			t.Fatalf("got phase %s, want CANCELED", run.GetPhase())
		}
		effects := l.Fleet.Effects("", id, 0)
		if last := effects[len(effects)-1]; last.Effect != "kill" {
			t.Errorf("last effect: got %v, want the command killed", last)
		}
	})
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			t.Fatal("wait for the condition: timed out")
		}
		<-time.After(time.Millisecond)
	}
}

func TestQueueOrder(t *testing.T) {
	l := newLab(t, fake.Config{CommandTime: fake.Duration(10 * time.Millisecond)})
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
	var ids []string
	for i := range 8 {
		m := fmt.Sprintf("m-%d", i)
		l.Machine(m)
		run := l.Start(m, "", "p", nil)
		if got, want := run.GetQueuePosition(), int32(i+1); got != want {
			t.Errorf("queue position of run %d: got %d, want %d", i, got, want)
		}
		ids = append(ids, run.GetRunId())
	}
	cfg := quick()
	cfg.MaxActive = 1
	l.lead(cfg)
	var began time.Time
	for _, id := range ids {
		run := l.Ended(id)
		if s := run.GetStartedAt().AsTime(); s.Before(began) {
			t.Errorf("run %s: got start at %s, before that of an earlier run", id, s)
		} else {
			began = s
		}
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 300
	l := newLab(t, fake.Config{})
	ids := make([]string, n)
	for i := range ids {
		m := fmt.Sprintf("m-%d", i)
		l.Machine(m)
		ids[i] = l.Start(m, "REPAVE", "", nil).GetRunId()
	}
	l.lead(quick())
	for _, id := range ids {
		if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run %s: got %s %v", id, run.GetPhase(), run.GetError())
		}
	}
}

func TestCancelActive(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "sleep 60"}))
	l.Machine("m-1")
	l.Machine("m-2")
	ld := l.lead(quick())
	running := l.Start("m-1", "", "p", nil).GetRunId()
	l.Wait(running, "running", func(r *holdfastv1.Run) bool { return r.GetPhase() == holdfastv1.Run_RUNNING })
	ld.Stop()
	pending := l.Start("m-2", "", "p", nil).GetRunId()
	if err := ld.CancelActive(t.Context(), "the peer is stopping"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{running, pending} {
		if run, _ := l.FSM.View().Run(id); run.GetPhase() != holdfastv1.Run_CANCELED ||
			!strings.Contains(run.GetError().GetMessage(), "stopping") {
			t.Errorf("run %s: got %s %v, want CANCELED with the reason", id, run.GetPhase(), run.GetError())
		}
	}
}

// deaf is a host whose answers to starts are lost.
type deaf struct {
	*fake.Provider
	class providers.Class
}

func (d deaf) StartCommand(
	ctx context.Context, op providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	if err := d.Provider.StartCommand(ctx, op, m, token, c); err != nil {
		return err
	}
	return providers.Errorf(d.class, "start the command", "lost answer")
}

// If the start of a command is not answered, the leader queries the command first, so that it is
// started once.
func TestLostAnswerToStart(t *testing.T) {
	for _, class := range []providers.Class{providers.Timeout, providers.Transient} {
		t.Run(string(class), func(t *testing.T) {
			l := newLab(t, fake.Config{})
			l.Set = providers.SetOf(map[string]providers.Provider{"fake": deaf{fake.New(l.Fleet), class}})
			l.Machine("m-1")
			l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "echo one\n"}))
			l.lead(quick())
			id := l.Start("m-1", "", "p", nil).GetRunId()
			run := l.Ended(id)
			if n := len(run.GetSteps()[0].GetAttempts()); run.GetPhase() != holdfastv1.Run_SUCCEEDED || n != 1 {
				t.Errorf("run: got %s after %d attempts, want SUCCEEDED after 1: %v", run.GetPhase(), n, run.GetError())
			}
			if n := len(l.Fleet.Effects("", id, 0)); n != 1 {
				t.Errorf("got %d effects on the host, want one start", n)
			}
			if got := l.Log(id, "stdout"); got != "one\n" {
				t.Errorf("got output %q", got)
			}
		})
	}
}
