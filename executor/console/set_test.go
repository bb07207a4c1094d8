package console

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestReserve(t *testing.T) {
	s := NewSet(fsm.New())
	var release func()
	for i := range Max {
		r, ok := s.Reserve()
		if !ok {
			t.Fatalf("slot %d: got a refusal, want %d slots", i, Max)
		}
		release = r
	}
	if _, ok := s.Reserve(); ok {
		t.Errorf("slot %d: got it, want a refusal", Max)
	}
	release()
	if _, ok := s.Reserve(); !ok {
		t.Error("after a release: got a refusal, want a slot")
	}
}

// Attach refuses runs without a console, and peers that do not lead.
func TestAttachRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := executortest.New(t, fake.Config{})
		l.Machine("m-1")
		l.Machine("m-2")
		l.Plan("p", executortest.Step("s", &holdfastv1.SshCommand{Command: "true"}))
		command := l.Start("m-1", "", "p", nil)
		open := l.Start("m-1", "", "plan/console", nil)
		over := l.Start("m-2", "", "plan/console", nil)
		l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{
			CancelRun: &internalv1.CancelRun{RunId: over.GetRunId()}}})
		tests := []struct {
			name, run string
			want      string
		}{
			{"unknown run", "run-none", "RUN_NOT_FOUND"},
			{"run of commands", command.GetRunId(), "NO_CONSOLE"},
			{"ended run", over.GetRunId(), fsm.ReasonRunFinished},
		}
		s := NewSet(l.FSM)
		for _, tt := range tests {
			_, err := s.Attach(t.Context(), tt.run, "user:a", false)
			var refused *fsm.Error
			if !errors.As(err, &refused) || refused.Reason != tt.want {
				t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
			}
		}
		_, err := s.Attach(t.Context(), open.GetRunId(), "user:a", false)
		var unsure *outcome.Error
		if !errors.As(err, &unsure) || unsure.Outcome != outcome.NotApplied {
			t.Errorf("attach at a follower: got %v, want %v", err, ErrLost())
		}
	})
}

// A client reads earlier output and then new output. One client at a time may write, and the end of
// the console ends the clients.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSet(fsm.New())
		defer s.Lead()()
		var hw bytes.Buffer
		o, closeIt := s.Open("run-1", &hw)
		o.Show([]byte("boot\n"))
		first, err := s.Attach(t.Context(), "run-1", "user:a", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Attach(t.Context(), "run-1", "user:a", true); err == nil {
			t.Error("second writer: got accepted, want CONSOLE_TAKEN")
		}
		second, err := s.Attach(t.Context(), "run-1", "user:a", false)
		if err != nil {
			t.Fatal(err)
		}
		if use := o.Use(); use.Clients != 2 || use.Left {
			t.Errorf("got %d clients, left %t, want 2 and false", use.Clients, use.Left)
		}
		if _, err := first.Write([]byte("ls\n")); err != nil || hw.String() != "ls\n" {
			t.Errorf("write: got %v, hardware %q", err, hw.String())
		}
		time.Sleep(time.Second) // sleep: in a synctest bubble
		if _, err := second.Write([]byte("rm\n")); err == nil || o.Use().Quiet != time.Second {
			t.Errorf("write of a reader: got error %v, quiet for %s, want an error and 1s", err, o.Use().Quiet)
		}
		o.Show([]byte("a b\n"))
		go func() {
			time.Sleep(time.Minute) // sleep: in a synctest bubble
			closeIt(nil)
		}()
		for name, c := range map[string]io.ReadCloser{"first": first, "second": second} {
			if got, err := io.ReadAll(c); err != nil || string(got) != "boot\na b\n" {
				t.Errorf("%s client: got %q, %v, want all output", name, got, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if use := o.Use(); use.Clients != 0 || use.Quiet < time.Minute {
			t.Errorf("got %d clients, quiet for %s, want 0 for a minute", use.Clients, use.Quiet)
		}
	})
}
