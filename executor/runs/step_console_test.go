package runs

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// shows reads until a text appears.
func shows(t *testing.T, c io.Reader, want string) {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), want) {
		n, err := c.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("console: got end %v after %q, want %q", err, got.String(), want)
		}
	}
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*fsm.Error](err); ok {
		return e.Reason
	}
	return ""
}

func attach(t *testing.T, e *Executor, run string, write bool) io.ReadWriteCloser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c, err := e.Attach(ctx, run, "user:a", write)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return c
}

// One client writes, and others only read. The output is in the run log, and the run ends when all
// clients have left.
func TestConsole(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	ld := l.lead(quick())
	run := l.Start("m-1", "", "plan/console", nil)
	writer := attach(t, ld.Executor, run.GetRunId(), true)
	shows(t, writer, "m-1 login: ")
	onlooker := attach(t, ld.Executor, run.GetRunId(), false)
	if _, err := ld.Attach(t.Context(), run.GetRunId(), "user:a", true); reasonOf(err) != "CONSOLE_TAKEN" {
		t.Errorf("second writer: got %v, want CONSOLE_TAKEN", err)
	}
	if _, err := onlooker.Write([]byte("x")); err == nil {
		t.Error("write of a reader: got no error")
	}
	if _, err := writer.Write([]byte("root\n")); err != nil {
		t.Fatal(err)
	}
	shows(t, writer, "root\n")
	shows(t, onlooker, "root\n")
	_ = writer.Close()
	again := attach(t, ld.Executor, run.GetRunId(), true)
	shows(t, again, "root\n") // including earlier output
	_ = again.Close()
	_ = onlooker.Close()
	ld.Leave(run.GetRunId())
	if got := l.Ended(run.GetRunId()); got.GetPhase() != holdfastv1.Run_SUCCEEDED ||
		got.GetSteps()[0].GetMessage() != "all clients have left" {
		t.Errorf("run: got %s: %v", got.GetPhase(), got.GetSteps())
	}
	if log := l.Log(run.GetRunId(), "console"); !strings.Contains(log, "root\n") {
		t.Errorf("got log %q", log)
	}
	for c := range l.FSM.View().RunLog(run.GetRunId(), 0) {
		if strings.Contains(string(c.GetData()), "root\n") && c.GetPrincipal() != "user:a" {
			t.Errorf("got principal %q of the echoed input, want user:a", c.GetPrincipal())
		}
	}
	if _, err := ld.Attach(t.Context(), run.GetRunId(), "user:a", false); reasonOf(err) != fsm.ReasonRunFinished {
		t.Errorf("attach to an ended run: got %v", err)
	}
}

// A console is not the active run: the machine can be repaved at the same time. There is at most
// one console per machine.
func TestConsoleDuringRepave(t *testing.T) {
	l := newLab(t, fake.Config{InstallTime: fake.Duration(50 * time.Millisecond)})
	l.Machine("m-1")
	cfg := quick()
	cfg.MaxActive = 1
	ld := l.lead(cfg)
	con := l.Start("m-1", "", "plan/console", nil)
	c := attach(t, ld.Executor, con.GetRunId(), true)
	repave := l.Ended(l.Start("m-1", "REPAVE", "", nil).GetRunId())
	if repave.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("repave: got %s: %v", repave.GetPhase(), repave.GetError())
	}
	shows(t, c, "[power off]")
	_, err := l.Apply(t.Context(),
		&internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{RunId: "run-2",
			MachineId: "m-1", RequestId: "r-2", PlanId: "plan/console"}}})
	if reasonOf(err) != fsm.ReasonConsoleOpen {
		t.Errorf("second console: got %v, want CONSOLE_OPEN", err)
	}
	l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: con.GetRunId()}}})
	if got := l.Ended(con.GetRunId()); got.GetPhase() != holdfastv1.Run_CANCELED {
		t.Errorf("console: got %s, want CANCELED", got.GetPhase())
	}
	if m, _ := l.FSM.View().Machine("m-1"); m.GetStatus().GetPhase() != holdfastv1.MachineStatus_IN_SERVICE {
		t.Errorf("phase: got %s, want IN_SERVICE from the repave", m.GetStatus().GetPhase())
	}
	for {
		if _, err := c.Read(make([]byte, 1024)); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("console: got end %v, want EOF", err)
			}
			return
		}
	}
}

// Attached clients learn that the leader is lost. The next leader opens the console
// again, for the same run.
func TestConsoleIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	first := l.lead(quick())
	id := l.Start("m-1", "", "plan/console", nil).GetRunId()
	c := attach(t, first.Executor, id, true)
	shows(t, c, "login: ")
	first.Kill()
	<-first.Done
	var lost *outcome.Error
	for {
		if _, err := c.Read(make([]byte, 1024)); err != nil {
			if !errors.As(err, &lost) {
				t.Errorf("console: got end %v, want a lost leader", err)
			}
			break
		}
	}
	if _, err := first.Attach(t.Context(), id, "user:a", true); !errors.As(err, &lost) {
		t.Errorf("attach at a follower: got %v", err)
	}
	second := l.lead(quick())
	again := attach(t, second.Executor, id, true)
	shows(t, again, "login: ")
	_ = again.Close()
	second.Leave(id)
	run := l.Ended(id)
	if as := run.GetSteps()[0].GetAttempts(); run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(as) != 1 ||
		len(as[0].GetEpochs()) != 2 {
		t.Errorf("run: got %s with attempts %v, want SUCCEEDED in one of two leaders", run.GetPhase(), as)
	}
}

// A console has a time limit.
func TestConsoleTimeLimits(t *testing.T) {
	for _, k := range []struct {
		name   string
		step   *holdfastv1.SerialConsole
		limit  int32 // of the step, in seconds
		linger time.Duration
		stays  bool // a client is attached
		want   string
	}{
		{"no client", &holdfastv1.SerialConsole{}, 60, 50 * time.Millisecond, false, "no client was attached for 50ms"},
		{"idle", &holdfastv1.SerialConsole{IdleSeconds: 1}, 60, 2 * time.Second, true, "no input or output for 1s"},
		{"time limit", &holdfastv1.SerialConsole{}, 1, time.Minute, true, "closed at the end of its time"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				l.Machine("m-1")
				s := stepOf("s", k.step)
				s.TimeoutSeconds = k.limit
				l.Plan("p", s)
				cfg := quick()
				cfg.Linger = k.linger
				ld := l.lead(cfg)
				id := l.Start("m-1", "", "p", nil).GetRunId()
				if k.stays {
					attach(t, ld.Executor, id, true)
				}
				if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED || run.GetSteps()[0].GetMessage() != k.want {
					t.Errorf("run: got %s: %q, want SUCCEEDED: %q", run.GetPhase(), run.GetSteps()[0].GetMessage(), k.want)
				}
			})
		})
	}
}

// Leave concerns only the caller: if another client is still attached, and its connection breaks
// later, it has time to return.
func TestConsoleOfRemainingClient(t *testing.T) {
	for _, k := range []struct {
		name  string
		leave bool // the last client leaves too
		want  string
	}{
		{"broken connection", false, "no client was attached for 30s"},
		{"leaves too", true, "all clients have left"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{})
				l.Machine("m-1")
				cfg := quick()
				cfg.Linger = 30 * time.Second
				ld := l.lead(cfg)
				id := l.Start("m-1", "", "plan/console", nil).GetRunId()
				stays := attach(t, ld.Executor, id, true)
				leaves := attach(t, ld.Executor, id, false)
				_ = leaves.Close()
				ld.Leave(id)
				_ = stays.Close()
				if k.leave {
					ld.Leave(id)
				}
				if got := l.Ended(id).GetSteps()[0].GetMessage(); got != k.want {
					t.Errorf("console: got end %q, want %q", got, k.want)
				}
			})
		})
	}
}
