package runs

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func (l *lab) cancel(run string) {
	l.T.Helper()
	l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: run}}})
}

// After a cancel, a machine is free only when the last press has taken effect.
func TestCancelWaitsForPress(t *testing.T) {
	for _, force := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, fake.Config{Faults: fake.Faults{Latency: fake.Duration(300 * time.Millisecond)}})
			l.Machine("m-1")
			l.Plan("p", stepOf("s", &holdfastv1.Power{Action: "off", Force: force}))
			l.lead(quick())
			id := l.Start("m-1", "", "p", nil).GetRunId()
			l.Wait(id, "pressing", func(*holdfastv1.Run) bool { return strings.Contains(l.Log(id, "system"), "power ") })
			synctest.Wait() // the line is logged before the press is sent, which takes 300 ms
			l.cancel(id)
			run := l.Ended(id)
			if run.GetPhase() != holdfastv1.Run_CANCELED {
				t.Fatalf("run: got %s: %v", run.GetPhase(), run.GetError())
			}
			was := len(l.presses(id))
			time.Sleep(time.Minute) // sleep: fake clock
			if n := len(l.presses(id)); was != 1 || n != 1 {
				t.Errorf("got %d presses at the end of the run, and %d a minute later, want 1 and 1 (force: %v)", was, n, force)
			}
		})
	}
}

// A cancel or a deadline during the commit of a progress note ends the attempt, but not the term.
func TestEndDuringNote(t *testing.T) {
	for name, want := range map[string]holdfastv1.Run_Phase{"cancel": holdfastv1.Run_CANCELED,
		"deadline": holdfastv1.Run_FAILED} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				l.Machine("m-1")
				s := stepOf("s", &holdfastv1.Power{Action: "off"})
				s.MaxRetries = new(int32)
				l.Plan("p", s)
				noting := make(chan struct{})
				l.Commit = func(cmd *internalv1.Command) {
					if cmd.GetNoteProgress() != nil {
						close(noting)
						time.Sleep(time.Minute) // sleep: fake clock, beyond the deadline of the attempt
					}
				}
				ld := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-noting
				if name == "cancel" {
					l.cancel(id)
				}
				run := l.Ended(id)
				if run.GetPhase() != want || l.Epoch() != 1 {
					t.Errorf("run: got %s (%v) in term %d, want %s in term 1", run.GetPhase(), run.GetError(), l.Epoch(), want)
				}
				if ld.Stop(); ld.Err != nil {
					t.Errorf("term: got end with %v", ld.Err)
				}
			})
		})
	}
}

// The run log shows that a leader has adopted a canceled run, and how it ended it.
func TestAdoptedCancelIsLogged(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "echo begun; sleep 60"}))
	first := l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	l.Wait(id, "at work", func(*holdfastv1.Run) bool { return l.Log(id, "stdout") != "" })
	first.Kill()
	<-first.Done
	l.cancel(id)
	l.lead(quick())
	run := l.Ended(id)
	a := run.GetSteps()[0].GetAttempts()
	if run.GetPhase() != holdfastv1.Run_CANCELED || len(a) != 1 || a[0].GetOutcome() != holdfastv1.Attempt_CANCELED {
		t.Fatalf("run: got %s with attempts %v, want one canceled attempt", run.GetPhase(), a)
	}
	for _, want := range []string{"continues under the leader of term 2", "kill the command", "canceled"} {
		if log := l.Log(id, "system"); !strings.Contains(log, want) {
			t.Errorf("log: got no %q:\n%s", want, log)
		}
	}
}

// A stop that cancels runs ends their commands before the machines are free.
func TestCancelAllEndsCommands(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Machine("m-2")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "echo begun; sleep 60"}))
	ld := l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	other := l.Start("m-2", "", "p", nil).GetRunId()
	for _, id := range []string{id, other} {
		l.Wait(id, "at work", func(*holdfastv1.Run) bool { return l.Log(id, "stdout") != "" })
	}
	if err := ld.Cancel(t.Context(), "the peer is stopping"); err != nil {
		t.Fatal(err)
	}
	for machine, id := range map[string]string{"m-1": id, "m-2": other} {
		run := l.Ended(id)
		if run.GetPhase() != holdfastv1.Run_CANCELED || !strings.Contains(run.GetError().GetMessage(), "stopping") ||
			!strings.Contains(l.Log(id, "system"), "kill the command") {
			t.Errorf("run %s: got %s: %v\n%s", id, run.GetPhase(), run.GetError(), l.Log(id, "system"))
		}
		m, _ := l.FSM.View().Machine(machine)
		st, err := fake.New(l.Fleet).CommandStatus(t.Context(), m, providers.Op{RunID: id, Step: "s", Attempt: 1}.Token(), 0)
		if err != nil || st.State != providers.WorkFailed {
			t.Errorf("command on %s: got %s, %v, want it killed", machine, st.State, err)
		}
	}
}

// A host with erased disks is not asked to erase them again if a later part of the step fails,
// because it cannot.
func TestErasedOnce(t *testing.T) {
	l := newLab(t, fake.Config{})
	p := fake.New(l.Fleet)
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": rack{p, &stubborn{PowerController: p, refuse: 1}, p, p,
		erases}})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.RmaAction{Wipe: true}))
	l.lead(quick())
	id := l.Start("m-1", "RMA", "p", nil).GetRunId()
	run := l.Ended(id)
	a := run.GetSteps()[0].GetAttempts()
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(a) != 2 ||
		a[1].GetEvidenceAfter()["wiped"] != "by the host (2 of them)" {
		t.Errorf("run: got %s: %v\n%s", run.GetPhase(), a, l.Log(id, "system"))
	}
	if n := strings.Count(l.Log(id, "system"), "erase all disks"); n != 1 {
		t.Errorf("got %d erasures, want 1", n)
	}
}

// stubborn refuses the first presses.
type stubborn struct {
	providers.PowerController
	refuse int32
	seen   atomic.Int32
}

func (s *stubborn) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	if s.seen.Add(1) <= s.refuse {
		return providers.Errorf(providers.Transient, "press "+string(a), "answered 503 Service Unavailable")
	}
	return s.PowerController.SetPower(ctx, op, m, a)
}

// A verification with a timeout reports its wait when the timeout has passed.
func TestVerifyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.member(&book{node: providers.NodeStatus{Registered: true, Node: "n-1",
			Message: "node n-1: Ready is False (KubeletNotReady): no cni"}})
		l.Machine("m")
		l.Plan("p", once(stepOf("verify",
			&holdfastv1.VerifyInCluster{ClusterRef: "c", Timeout: durationpb.New(2 * time.Second)})))
		l.lead(quick())
		run := l.Ended(l.Start("m", "REPAVE", "p", nil).GetRunId())
		if got := run.GetError(); got.GetErrorClass() != "timeout" ||
			!strings.Contains(got.GetMessage(),
				"gave up after 2s waiting for the node in c to be Ready (node n-1: Ready is False (KubeletNotReady): no cni)") {
			t.Errorf("got error %v", got)
		}
	})
}

// Entries that do not fit into the run log are not cleared.
func TestEventLogIsNotClearedIfRunLogIsFull(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("talks", &holdfastv1.SshCommand{Script: strings.Repeat("yes 100000\n", 8)}),
		stepOf("s", &holdfastv1.ClearEventLog{}))
	l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	run := l.Ended(id)
	if !run.GetLogTruncated() || run.GetLogBytes() < fsm.MaxRunLog {
		t.Fatalf("got a log of %d bytes", run.GetLogBytes())
	}
	if n := len(run.GetSteps()[1].GetAttempts()); run.GetPhase() != holdfastv1.Run_FAILED ||
		!strings.Contains(run.GetError().GetMessage(), "the log of this run is full") || n != 1 {
		t.Errorf("run: got %s after %d attempts: %v, want FAILED at once", run.GetPhase(), n, run.GetError())
	}
	for _, e := range l.Fleet.Effects("m-1", id, 0) {
		if strings.HasPrefix(e.Effect, "clear_log") {
			t.Errorf("got a cleared event log: %v", e)
		}
	}
}

// A leader that adopts a drain through the API does not query the host, which may not answer.
func TestDrainThroughAPIIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	b := &book{node: providers.NodeStatus{Registered: true, Ready: true, Node: "n-1"},
		drains: []providers.DrainStatus{{Node: "n-1", Left: 1, Waiting: "pod default/web"}}}
	l.member(b)
	l.Machine("m")
	cfg := quick()
	cfg.NoteAfter = 1
	first := l.lead(cfg)
	id := l.Start("m", "UPGRADE", "plan/upgrade", map[string]string{"cluster_ref": "c"}).GetRunId()
	l.whenWaiting(id, "pod default/web", first.Kill)
	<-first.Done
	p := fake.New(l.Fleet)
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": member{p, p, noStatus{p}, b}})
	b.with(func() { b.drains = []providers.DrainStatus{{Node: "n-1"}} })
	l.lead(cfg)
	run := l.Ended(id)
	for _, s := range run.GetSteps() {
		if s.GetName() == "drain-node" && (s.GetState() != holdfastv1.StepStatus_SUCCEEDED || len(s.GetAttempts()) != 1) {
			t.Errorf("drain: got %s: %s\n%s", s.GetState(), s.GetMessage(), l.Log(id, "system"))
		}
	}
}

// noStatus is a host that does not answer questions about commands.
type noStatus struct{ providers.RemoteExecutor }

func (noStatus) CommandStatus(context.Context, providers.Machine, string, int64) (providers.CommandStatus, error) {
	return providers.CommandStatus{}, providers.Errorf(providers.Unsupported, "ask the host", "no key")
}

// A leader that adopts a canceled run waits until the press of the earlier leader has taken effect.
func TestAdoptedCancelWaitsForPress(t *testing.T) {
	for name, kind := range map[string]proto.Message{"power": &holdfastv1.Power{Action: "off", Force: true},
		"reboot": &holdfastv1.Reboot{Mode: "bmc", Force: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{Faults: fake.Faults{Latency: fake.Duration(2 * time.Second)}})
				l.Machine("m-1")
				l.Plan("p", stepOf("s", kind))
				first := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				l.Wait(id, "pressing", func(*holdfastv1.Run) bool {
					return strings.Contains(l.Log(id, "system"),
						"power hard-off")
				})
				synctest.Wait() // until the press is in progress
				first.Kill()
				<-first.Done
				l.cancel(id)
				l.lead(quick())
				run := l.Ended(id)
				was := len(l.presses(id))
				time.Sleep(time.Minute) // sleep: fake clock
				if n := len(l.presses(id)); run.GetPhase() != holdfastv1.Run_CANCELED || was != 1 || n != 1 {
					t.Errorf("run: got %s, %d presses at its end and %d a minute later, want 1 and 1\n%s",
						run.GetPhase(), was, n, l.Log(id, "system"))
				}
			})
		})
	}
}

// No run begins while a stop cancels all runs: queued and new runs are canceled first.
func TestNoRunBeginsDuringCancelAll(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "echo begun; sleep 60"}))
	cfg := quick()
	cfg.MaxActive = 1
	ld := l.lead(cfg)
	l.Machine("m-0")
	first := l.Start("m-0", "", "p", nil).GetRunId()
	l.Wait(first, "at work", func(*holdfastv1.Run) bool { return l.Log(first, "stdout") != "" })
	var waiting []string
	for _, m := range []string{"m-1", "m-2", "m-3"} {
		l.Machine(m)
		waiting = append(waiting, l.Start(m, "", "p", nil).GetRunId())
	}
	if err := ld.Cancel(t.Context(), "the peer is stopping"); err != nil {
		t.Fatal(err)
	}
	for _, id := range waiting {
		if run, _ := l.FSM.View().Run(id); run.GetPhase() != holdfastv1.Run_CANCELED || run.GetStartedAt() != nil {
			t.Errorf("run %s: got %s, begun at %v", id, run.GetPhase(), run.GetStartedAt())
		}
	}
}
