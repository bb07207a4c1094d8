package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func now() time.Time { return time.Date(2026, 1, 29, 15, 20, 0, 0, time.UTC) }

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now().Add(-d)) }

func installer() *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "reports"}
}

func running() *holdfastv1.Run {
	return &holdfastv1.Run{
		RunId: "run-1", MachineId: "m-1", Type: "REPAVE", Phase: holdfastv1.Run_RUNNING, CurrentStep: "repave-os",
		StartedAt: ago(70 * time.Second), Wait: installer(), Deadline: ago(-12 * time.Minute),
		Steps: []*holdfastv1.StepStatus{
			{Name: "set-netboot", State: holdfastv1.StepStatus_SUCCEEDED, StartedAt: ago(70 * time.Second),
				FinishedAt: ago(66 * time.Second)},
			{Name: "repave-os", State: holdfastv1.StepStatus_RUNNING, StartedAt: ago(66 * time.Second), RetryCount: 1,
				MaxRetries: 2},
			{Name: "verify", State: holdfastv1.StepStatus_WAITING},
		},
	}
}

func failed() *holdfastv1.Run {
	r := running()
	r.Phase, r.FinishedAt = holdfastv1.Run_FAILED, ago(0)
	r.Error = &holdfastv1.RunError{Reason: "StepFailed", Message: "the disk is gone\x1b[2J"}
	r.Steps[1].State, r.Steps[1].FinishedAt, r.Steps[1].Message = holdfastv1.StepStatus_FAILED, ago(0), "no disk"
	return r
}

func format(lines []render.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Format(0, false) + "\n")
	}
	return b.String()
}

func TestOne(t *testing.T) {
	for _, tt := range []struct {
		run  *holdfastv1.Run
		want string
	}{
		{running(), `run-1  m-1  REPAVE  RUNNING  1/3  1m10s
  ✓ set-netboot  SUCCEEDED  4s
  ▸ repave-os    RUNNING    1m06s   attempt 2/3  waiting for the installer's reports, deadline in 12m
  · verify       WAITING
`},
		{failed(), `run-1  m-1  REPAVE  FAILED  1/3  1m10s  the disk is gone�[2J
  ✓ set-netboot  SUCCEEDED  4s
  ✗ repave-os    FAILED     1m06s   attempt 2/3  no disk
  · verify       WAITING
`},
		{&holdfastv1.Run{RunId: "run-2", MachineId: "m-2", Type: "REBOOT", Phase: holdfastv1.Run_PENDING, QueuePosition: 3},
			"run-2  m-2  REBOOT  PENDING  0/0  position 3 in the queue\n"},
	} {
		if diff := cmp.Diff(tt.want, format(One(tt.run, now()))); diff != "" {
			t.Errorf("One (-want +got):\n%s", diff)
		}
	}
}

func TestShortAndEvent(t *testing.T) {
	for _, tt := range []struct {
		run         *holdfastv1.Run
		message     string
		short, line string
	}{
		{running(), "",
			"run-1         m-1           REPAVE    RUNNING    1/3    1m10s   repave-os: attempt 2/3: waiting for the " +
				"installer's reports, deadline in 12m",
			"2026-01-29T15:20:00Z run-1 m-1 REPAVE RUNNING 1/3 repave-os RUNNING attempt 2/3: waiting for the " +
				"installer's reports, deadline in 12m"},
		{failed(), "run failed",
			"run-1         m-1           REPAVE    FAILED     1/3    1m10s   the disk is gone�[2J",
			"2026-01-29T15:20:00Z run-1 m-1 REPAVE FAILED 1/3 repave-os FAILED attempt 2/3: run failed"},
	} {
		if diff := cmp.Diff(tt.short, Short(tt.run, now()).Format(0, false)); diff != "" {
			t.Errorf("Short (-want +got):\n%s", diff)
		}
		e := &holdfastv1.RunEvent{Ts: ago(0), Snapshot: tt.run, Message: tt.message}
		if diff := cmp.Diff(tt.line, Event(e)); diff != "" {
			t.Errorf("Event (-want +got):\n%s", diff)
		}
	}
}

func TestWhy(t *testing.T) {
	bmc := &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: "BMC"}
	for _, tt := range []struct {
		run  *holdfastv1.Run
		want string
	}{
		{&holdfastv1.Run{}, ""},
		{&holdfastv1.Run{Wait: bmc}, "waiting for the BMC to answer"},
		{&holdfastv1.Run{Wait: bmc, NextActionAt: ago(-20 * time.Second), Deadline: ago(-time.Hour)},
			"waiting for the BMC to answer, next action in 20s"},
		{&holdfastv1.Run{Wait: bmc, NextActionAt: ago(20 * time.Second), Deadline: ago(time.Hour)},
			"waiting for the BMC to answer"},
		{&holdfastv1.Run{Wait: bmc, CancelRequestedAt: ago(0)}, "canceling"},
		{&holdfastv1.Run{Phase: holdfastv1.Run_SUCCEEDED, Wait: bmc}, ""},
		{&holdfastv1.Run{Phase: holdfastv1.Run_CANCELED, Error: &holdfastv1.RunError{Reason: "Canceled"}}, "Canceled"},
	} {
		if got := Why(tt.run, now()); got != tt.want {
			t.Errorf("Why(%v): got %q, want %q", tt.run, got, tt.want)
		}
	}
}

func TestBoardKeepsActiveRuns(t *testing.T) {
	b := NewBoard(false)
	second := running()
	second.RunId = "run-2"
	for _, r := range []*holdfastv1.Run{running(), second, running()} {
		if above := b.Add(r, now()); above != nil {
			t.Errorf("lines of an active run: got %v, want none", above)
		}
	}
	if got := len(b.Lines(now())); got != 2 {
		t.Errorf("got %d lines, want one for each of 2 runs", got)
	}
	if above := b.Add(failed(), now()); len(above) != 1 {
		t.Errorf("got %d lines of an ended run, want 1", len(above))
	}
	if got := b.Lines(now()); len(got) != 1 || !strings.HasPrefix(got[0].Format(0, false), "run-2") {
		t.Errorf("got lines %v, want only that of run-2", got)
	}
	// A run that was not seen while it was active also leaves its lines.
	if above := NewBoard(true).Add(failed(), now()); len(above) != 4 {
		t.Errorf("got %d lines with steps, want 4", len(above))
	}
}
