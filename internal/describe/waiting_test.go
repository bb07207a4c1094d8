package describe

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestReadsAndIgnores(t *testing.T) {
	now := time.Unix(1000, 0)
	reading := Reading{By: "BMC", Of: "power of m-05"}.WaitingFor()
	hardOff := Accepted("the power to be off", "hard-off")
	for _, tt := range []struct {
		name           string
		waitingFor     string
		since, end     int // seconds from now; 0: no deadline
		reads, ignores string
	}{
		{"hangs", reading, -13, 7, "reading power of m-05: BMC has not answered for 13s (deadline in 7s)", ""},
		{"hangs, no deadline", reading, -13, 0, "reading power of m-05: BMC has not answered for 13s", ""},
		{"hangs, late", reading, -130, -1,
			"reading power of m-05: BMC has not answered for 2m10s (deadline has passed)", ""},
		{"fails", reading + ", but BMC answered 503", -13, 7,
			"reading power of m-05 for 13s: BMC answered 503 (deadline in 7s)", ""},
		{"another wait", "the host to boot", -13, 7, "", ""},
		{"ignored press", hardOff, -45, 7, "", "BMC accepted 'hard-off' 45s ago and still reports on"},
		{"recent press", hardOff, -14, 7, "", ""},
		{"press, reads fail", hardOff + ", but refused", -45, 7, "", ""},
		{"ignored power on", Accepted("the power to be on", "on"), -45, 7, "",
			"BMC accepted 'on' 45s ago and still reports off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &holdfastv1.Run{WaitingFor: tt.waitingFor,
				WaitingSince: timestamppb.New(now.Add(time.Duration(tt.since) * time.Second))}
			if tt.end != 0 {
				r.Deadline = timestamppb.New(now.Add(time.Duration(tt.end) * time.Second))
			}
			if got := Reads(r, now); got != tt.reads {
				t.Errorf("Reads: got %q, want %q", got, tt.reads)
			}
			if got := Ignores(r, now); got != tt.ignores {
				t.Errorf("Ignores: got %q, want %q", got, tt.ignores)
			}
		})
	}
}

func TestWaitingFor(t *testing.T) {
	for _, tt := range []struct {
		run  *holdfastv1.Run
		want string
	}{
		{&holdfastv1.Run{WaitingFor: "the executor", Phase: holdfastv1.Run_PENDING}, "a free slot"},
		{&holdfastv1.Run{WaitingFor: "the executor", Phase: holdfastv1.Run_RUNNING, CurrentStep: "pxe"},
			"step pxe to begin"},
		{&holdfastv1.Run{WaitingFor: "the host"}, "the host"},
		{&holdfastv1.Run{}, ""},
	} {
		if got := WaitingFor(tt.run); got != tt.want {
			t.Errorf("WaitingFor(%v): got %q, want %q", tt.run, got, tt.want)
		}
	}
}

func TestHangs(t *testing.T) {
	now := time.Unix(1000, 0)
	reading := Reading{By: "BMC", Of: "power of m-05"}.WaitingFor()
	for _, tt := range []struct{ waitingFor, want string }{
		{reading, "BMC has not answered for 13s"},
		{reading + ", but BMC answered 503", "BMC answered 503"},
		{"the host to boot", ""},
	} {
		r := &holdfastv1.Run{WaitingFor: tt.waitingFor, WaitingSince: timestamppb.New(now.Add(-13 * time.Second))}
		if got := Hangs(r, now); got != tt.want {
			t.Errorf("Hangs(%q): got %q, want %q", tt.waitingFor, got, tt.want)
		}
	}
}
