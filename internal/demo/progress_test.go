package demo

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const running = holdfastv1.Run_RUNNING

// state returns the run of a machine, of two steps, with this number of completed ones, and the
// attempts of the current one.
func state(machine string, p holdfastv1.Run_Phase, done int, attempts ...*holdfastv1.Attempt) *holdfastv1.Run {
	r := &holdfastv1.Run{RunId: "r-" + machine, MachineId: machine, Phase: p}
	for i, name := range []string{"off", "wipe"} {
		s := &holdfastv1.StepStatus{Name: name, State: holdfastv1.StepStatus_WAITING}
		switch {
		case i < done:
			s.State = holdfastv1.StepStatus_SUCCEEDED
		case i == done:
			s.State, s.Attempts = holdfastv1.StepStatus_RUNNING, attempts
			r.CurrentStep = name
		}
		r.Steps = append(r.Steps, s)
	}
	return r
}

func attempt(n int32, o holdfastv1.Attempt_Outcome, err string, epochs ...uint64) *holdfastv1.Attempt {
	return &holdfastv1.Attempt{Number: n, Outcome: o, Error: err, Epochs: append([]uint64{1}, epochs...)}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// texts returns the lines of an output without their times.
func texts(t *testing.T, out string) []string {
	t.Helper()
	var all []string
	line := regexp.MustCompile(`^ {3}\d\.\d s  (.*)$`)
	for l := range strings.Lines(out) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Errorf("line %q has no time", l)
			continue
		}
		all = append(all, m[1])
	}
	return all
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 2, nil)
	p.run(state("m-01", running, 0, attempt(1, pending, "")))
	p.run(state("m-02", holdfastv1.Run_PENDING, 0))
	broke := attempt(1, failed, "power_off of m-01: BMC answered\x1b[2J 500")
	p.run(state("m-01", running, 0, broke))
	p.run(state("m-01", running, 0, broke)) // a repetition, as after a resumed watch
	p.run(state("m-01", running, 0, broke, attempt(2, pending, "")))
	p.run(state("m-01", running, 1))
	if isClosed(p.half) {
		t.Error("got the kill of the leader after a quarter")
	}
	p.run(state("m-02", running, 1))
	if !isClosed(p.half) {
		t.Error("got no kill of the leader after half of the steps")
	}
	if got, want := p.steps(), "2 of 4 steps"; got != want {
		t.Errorf("steps: got %q, want %q", got, want)
	}
	p.run(state("m-02", running, 1, attempt(1, pending, "", 2)))
	p.run(state("m-01", running, 1, attempt(1, pending, "", 2)))
	done := state("m-01", holdfastv1.Run_SUCCEEDED, 2)
	p.run(done)
	p.run(done)
	if isClosed(p.finished) {
		t.Error("one of two runs has ended: got the end")
	}
	p.run(state("m-02", holdfastv1.Run_FAILED, 1, attempt(1, failed, "no disk", 2)))
	if !isClosed(p.finished) {
		t.Error("all runs have ended: got no end")
	}
	want := []string{
		"m-01 off: power_off: BMC answered\ufffd[2J 500 (attempt 1)",
		"25 % done: 1 of 4 steps", "50 % done: 2 of 4 steps",
		"m-02 wipe: the new leader adopts the attempt", "75 % done: 3 of 4 steps",
		"m-02 wipe: no disk (attempt 1)",
	}
	if diff := cmp.Diff(want, texts(t, out.String())); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestProgressLimitsFailures(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, 500, nil)
	for i := range 20 {
		p.run(state(fmt.Sprintf("m-%02d", i), running, 0, attempt(1, failed, "no answer")))
	}
	if got := texts(t, out.String()); len(got) != 8 || p.sum.failed != 20 {
		t.Errorf("got %d lines and %d failures, want 8 and 20", len(got), p.sum.failed)
	}
}

// The leader dies when a third to a half of the steps are complete, even if there are few.
func TestKillShare(t *testing.T) {
	for n := 1; n < 50; n++ {
		var out strings.Builder
		p := newProgress(&out, n, nil)
		done := 0
		for i := 0; !isClosed(p.half); i++ {
			r := &holdfastv1.Run{RunId: fmt.Sprint(i / 5), Phase: running}
			for step := range 5 {
				s := &holdfastv1.StepStatus{}
				if step <= i%5 {
					s.State = holdfastv1.StepStatus_SUCCEEDED
				}
				r.Steps = append(r.Steps, s)
			}
			p.run(r)
			done++
		}
		if share := float64(done) / float64(5*n); share < 1./3 || share > 0.5 {
			t.Errorf("%d machines: got the kill at %d of %d steps", n, done, 5*n)
		}
	}
}

// brokenPipe is a reader that has closed its end.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestProgressEndsWithReader(t *testing.T) {
	var got error
	newProgress(brokenPipe{}, 1, func(err error) { got = err }).say("something")
	if got == nil || got.Error() != "write progress: broken pipe" {
		t.Errorf("got %v, want a broken pipe", got)
	}
}
