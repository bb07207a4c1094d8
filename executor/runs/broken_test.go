package runs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/console"
	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// broken is a fake provider with parts that do not work.
type broken struct {
	*fake.Provider
	host, bmc func() error // error of each call; nil: works
	noBMC     bool
	onInspect func(providers.Machine) // at each Inspect
	open      func() error            // of each console
}

func (b *broken) HasBMC(providers.Machine) bool { return !b.noBMC }

func (b *broken) CommandStatus(
	ctx context.Context, m providers.Machine, token string, offset int64,
) (providers.CommandStatus, error) {
	if b.host != nil {
		if err := b.host(); err != nil {
			return providers.CommandStatus{}, err
		}
	}
	return b.Provider.CommandStatus(ctx, m, token, offset)
}

func (b *broken) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	if b.bmc != nil {
		if err := b.bmc(); err != nil {
			return "", err
		}
	}
	return b.Provider.PowerState(ctx, m)
}

func (b *broken) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	if b.onInspect != nil {
		b.onInspect(m)
	}
	f, err := b.Provider.Inspect(ctx, m)
	if b.host != nil {
		f.Reachable, f.ReachableReason = false, "NoAnswer"
	}
	return f, err
}

func (b *broken) OpenConsole(ctx context.Context, m providers.Machine) (io.ReadWriteCloser, error) {
	if b.open != nil {
		if err := b.open(); err != nil {
			return nil, err
		}
	}
	return b.Provider.OpenConsole(ctx, m)
}

// broken replaces the provider of all machines by a broken one.
func (l *lab) broken() *broken {
	b := &broken{Provider: fake.New(l.Fleet)}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": b})
	return b
}

func dead() error { return providers.Errorf(providers.Timeout, "ask m-1", "no answer") }

// A dead machine can be removed: neither its host nor its BMC is needed.
func TestRmaOfDeadMachine(t *testing.T) {
	for _, tc := range []struct {
		name      string
		host, bmc func() error
		truths    []string
		force     string
		err       string
		presses   []string
	}{
		{"dead host", dead, nil, nil, "", "", []string{"soft-off"}},
		{"dead host and BMC", dead, dead, nil, "", "", nil},
		{"dead BMC, host possibly up", nil, dead, nil, "", "repair the BMC or set force", nil},
		{"dead BMC, by force", nil, dead, nil, "true", "", nil},
		{"dead host of a cluster", dead, nil, []string{"InCustomerCluster"}, "", "in a cluster and not drained", nil},
		{"dead host of a cluster, by force", dead, nil, []string{"InCustomerCluster"}, "true", "", []string{"soft-off"}},
		{"host that refuses the login, by force",
			func() error {
				return providers.Errorf(providers.Auth, "log in",
					"refused")
			}, nil, nil, "true", "", []string{"soft-off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				b := l.broken()
				b.host, b.bmc = tc.host, tc.bmc
				l.Machine("m-1")
				ld := l.lead(Config{})
				l.observe("m-1", tc.truths...)
				params := map[string]string{"reason": "dead"}
				if tc.force != "" {
					params["force"] = tc.force
				}
				run := l.Ended(l.Start("m-1", "RMA", "", params).GetRunId())
				if msg := run.GetError().GetMessage(); (msg == "") != (tc.err == "") || !strings.Contains(msg, tc.err) {
					t.Errorf("run: got %s: %q, want %q\n%s", run.GetPhase(), msg, tc.err, l.Log(run.GetRunId(), "system"))
				}
				if diff := cmp.Diff(tc.presses, l.presses(run.GetRunId())); diff != "" {
					t.Errorf("presses (-want +got):\n%s", diff)
				}
				m, _ := l.FSM.View().Machine("m-1")
				if is := m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RMA; is != (tc.err == "") {
					t.Errorf("phase of the machine: got %s", m.GetStatus().GetPhase())
				}
				if tc.host != nil && executortest.Condition(m, "Drained").GetStatus() {
					t.Error("machine with a silent host: got Drained")
				}
				ld.Stop()
			})
		})
	}
}

// A provider that panics for one machine fails only the run of that machine. Other runs of the same
// leader continue.
func TestPanicFailsItsRun(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := l.broken()
	b.host = func() error { panic("index out of range") }
	l.Machine("m-1")
	l.Machine("m-2")
	l.Plan("bad", stepOf("s", &holdfastv1.SshCommand{Command: "true"}))
	l.Plan("good", stepOf("s", &holdfastv1.Power{Action: "off"}))
	ld := l.lead(quick())
	bad, good := l.Start("m-1", "", "bad", nil), l.Start("m-2", "", "good", nil)
	run := l.Ended(bad.GetRunId())
	if e := run.GetError(); run.GetPhase() != holdfastv1.Run_FAILED || e.GetReason() != "Panicked" ||
		!strings.Contains(e.GetMessage(), "index out of range") {
		t.Errorf("run with a panic: got %v, want FAILED for reason Panicked", run)
	}
	if run := l.Ended(good.GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("other run: got %v, want SUCCEEDED", run)
	}
	ld.Stop()
	if ld.Err != nil {
		t.Errorf("term: got end with %v", ld.Err)
	}
}

// A waiting run records the reason, even if the text of the error changes each time, and the start
// of the wait.
func TestWaitHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		b := l.broken()
		var calls atomic.Int64
		b.host = func() error {
			n := calls.Add(1)
			return providers.Errorf(providers.Transient, "ask m-1",
				"request %d: read tcp 10.0.0.1:%d->10.0.0.9:22: connection reset", n, 40000+n)
		}
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.SshCommand{Command: "true"})
		s.TimeoutSeconds = 300
		l.Plan("p", s)
		ld := l.lead(Config{})
		run := l.Start("m-1", "", "p", nil)
		time.Sleep(8 * time.Second) // sleep: fake clock
		first, _ := l.FSM.View().Run(run.GetRunId())
		if w := first.GetWait(); w.GetKind() != holdfastv1.Wait_ANSWER || w.GetSubject() != "host" ||
			!strings.Contains(w.GetCause(), "read tcp 10.0.0.1->10.0.0.9:22") {
			t.Errorf("after 8 s: got wait %v, want the host and the error without its local port", w)
		}
		written := l.Written()
		time.Sleep(time.Minute) // sleep: fake clock
		last, _ := l.FSM.View().Run(run.GetRunId())
		if !last.GetWait().GetSince().AsTime().Equal(first.GetWait().GetSince().AsTime()) ||
			last.GetWait().GetCause() == first.GetWait().GetCause() {
			t.Errorf("a minute later: got %v, want a newer error of %v", last.GetWait(), first.GetWait())
		}
		if n := l.Written() - written; n > 15 {
			t.Errorf("got %d log entries in a minute, want about one per 10 s", n)
		}
		ld.Stop()
	})
}

// A machine without a BMC is rebooted in band, even if its provider supports BMCs.
func TestRebootWithoutBMC(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := l.broken()
	b.noBMC, b.bmc = true, func() error { return providers.Errorf(providers.Unsupported, "ask the BMC", "no BMC") }
	l.Machine("m-1")
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "REBOOT", "", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("run: got %v, want SUCCEEDED", run)
	}
	if diff := cmp.Diff(map[string]int{"reboot/1/reboot": 1}, l.Destructive(run.GetRunId())); diff != "" {
		t.Errorf("destructive effects (-want +got):\n%s", diff)
	}
}

// After an outage, an adopted attempt has at least half of its timeout.
func TestAdoptedAttemptKeepsHalfItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{InstallTime: fake.Duration(90 * time.Second)})
		l.Machine("m-1")
		s := stepOf("s", &holdfastv1.RepaveImage{})
		s.TimeoutSeconds, s.MaxRetries = 200, proto.Int32(0)
		l.Plan("p", s)
		first := l.lead(Config{})
		id := l.Start("m-1", "", "p", nil).GetRunId()
		time.Sleep(20 * time.Second) // sleep: fake clock
		first.Kill()
		<-first.Done
		if err := l.Fleet.SetFaults(fake.Faults{Latency: fake.Duration(45 * time.Second)}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // sleep: fake clock, without a leader
		ld := l.lead(Config{})
		if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run: got %s, %v, want SUCCEEDED", run.GetPhase(), run.GetError())
		}
		ld.Stop()
	})
}

// Consoles that are being opened count against the limit, which is checked before a program is
// started.
func TestConsolesAreLimitedBeforeTheyOpen(t *testing.T) {
	l := newLab(t, fake.Config{})
	b := l.broken()
	var opened atomic.Int64
	release := make(chan struct{})
	b.open = func() error {
		opened.Add(1)
		<-release
		return providers.Errorf(providers.Unsupported, "open the console", "no console")
	}
	var runs []*holdfastv1.Run
	for i := range console.Max + 20 {
		m := fmt.Sprint("m-", i)
		l.Machine(m)
		runs = append(runs, l.Start(m, "", "plan/console", nil))
	}
	l.lead(quick())
	refused := func() (n int) {
		for _, r := range runs {
			if run, _ := l.FSM.View().Run(r.GetRunId()); strings.Contains(run.GetError().GetMessage(),
				"consoles are already open") {
				n++
			}
		}
		return n
	}
	l.Until(func(*fsm.View) bool { return refused() == 20 })
	close(release)
	for _, r := range runs {
		l.Ended(r.GetRunId())
	}
	if n := opened.Load(); n != console.Max {
		t.Errorf("got %d opened consoles, want %d", n, console.Max)
	}
}
