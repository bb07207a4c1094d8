package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// clock is a clock that stands still until a test advances it.
type clock struct{ time.Time }

func (c *clock) now() time.Time       { return c.Time }
func (c *clock) pass(d time.Duration) { c.Time = c.Add(d) }

// newTestBoard returns a board with n machines and a plan of two steps.
func newTestBoard(n int) (*board, *clock) {
	c := &clock{time.Unix(1000, 0)}
	b := newBoard(inventory(n), c.now)
	b.plan(&holdfastv1.Plan{Steps: []*holdfastv1.Step{{Name: "off"}, {Name: "wipe"}}})
	return b, c
}

// state returns a run of a machine with this number of completed steps, and the attempts of the
// current one.
func state(machine string, p holdfastv1.Run_Phase, done int, attempts ...*holdfastv1.Attempt) *holdfastv1.Run {
	names := []string{"off", "wipe"}
	r := &holdfastv1.Run{RunId: "r-" + machine, MachineId: machine, Phase: p,
		CreatedAt: timestamppb.New(time.Unix(1000, 0))}
	for i, name := range names {
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
	if p == holdfastv1.Run_SUCCEEDED || p == holdfastv1.Run_FAILED {
		r.FinishedAt = timestamppb.New(time.Unix(1007, 0))
	}
	return r
}

func attempt(n int32, o holdfastv1.Attempt_Outcome, err string, epochs ...uint64) *holdfastv1.Attempt {
	return &holdfastv1.Attempt{Number: n, Outcome: o, Error: err, Epochs: append([]uint64{1}, epochs...)}
}

func texts(v view) []string {
	var all []string
	for _, e := range v.Events {
		all = append(all, e.Text)
	}
	return all
}

func isOpen(gate chan struct{}) bool {
	select {
	case <-gate:
		return true
	default:
		return false
	}
}

func TestBoardFollowsRuns(t *testing.T) {
	b, c := newTestBoard(2)
	const running = holdfastv1.Run_RUNNING
	b.run(state("m-99", running, 1)) // another machine
	b.run(state("m-01", running, 0, attempt(1, pending, "")))
	b.run(state("m-02", holdfastv1.Run_PENDING, 0))
	c.pass(time.Second)
	broke := attempt(1, failed, "power_off of m-01: BMC answered 500")
	b.run(state("m-01", running, 0, broke))
	b.run(state("m-01", running, 0, broke)) // a repetition, as after a resumed watch
	want := machineView{ID: "m-01", Phase: running, Step: "off", Attempt: 1, Failure: "power_off: BMC answered 500",
		Retries: 1}
	if diff := cmp.Diff(want, b.view().Machines[0]); diff != "" {
		t.Errorf("machine after a failure (-want +got):\n%s", diff)
	}
	b.run(state("m-01", running, 0, broke, attempt(2, pending, "")))
	if got := b.view().Machines[0]; got.Attempt != 2 || got.Failure != "" {
		t.Errorf("machine in its second attempt: got %+v", got)
	}
	if isOpen(b.half) {
		t.Error("got the kill of the leader before the first step")
	}
	b.run(state("m-01", running, 1))
	if isOpen(b.half) {
		t.Error("got the kill of the leader after a quarter")
	}
	b.run(state("m-02", running, 1))
	if !isOpen(b.half) {
		t.Error("got no kill of the leader after half of the steps")
	}
	done := state("m-01", holdfastv1.Run_SUCCEEDED, 2)
	b.run(done)
	b.run(done)
	b.run(state("m-02", holdfastv1.Run_FAILED, 1, attempt(1, failed, "no disk")))
	if !isOpen(b.finished) {
		t.Error("all runs have ended: got no end")
	}
	v := b.view()
	if v.Done != 3 || v.Ended != 2 || v.Machines[0].Took != 7*time.Second {
		t.Errorf("got %d steps done, %d runs ended, the first in %v, want 3, 2, 7s", v.Done, v.Ended, v.Machines[0].Took)
	}
	wantTexts := []string{
		"m-01 off: power_off: BMC answered 500 (attempt 1)",
		"25 % done: 1 of 4 steps", "50 % done: 2 of 4 steps", "75 % done: 3 of 4 steps",
		"m-02: run r-m-02 failed: ",
	}
	if diff := cmp.Diff(wantTexts, texts(v)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := v.Events[0].At; got != time.Second {
		t.Errorf("event of the failure: got time %v, want 1s", got)
	}
}

func TestBoardCountsAdoptions(t *testing.T) {
	b, c := newTestBoard(3)
	const running = holdfastv1.Run_RUNNING
	b.died("n1", "1 of 6 steps")
	b.run(state("m-01", running, 0, attempt(1, pending, "", 2))) // before the leader is known
	if got := len(b.view().Events); got != 1 {
		t.Errorf("got %d events without a leader, want its death", got)
	}
	b.succeeded("n1", "n3", 38*time.Millisecond)
	b.run(state("m-02", running, 0, attempt(1, pending, "", 2)))
	b.run(state("m-02", running, 0, attempt(1, pending, "", 2)))
	want := []string{"leader n1 killed with SIGKILL at 1 of 6 steps", "n3 leads: writes paused for 38 ms",
		"n3 adopts 2 attempts of n1"}
	v := b.view()
	if diff := cmp.Diff(want, texts(v)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !v.Events[2].Unsettled {
		t.Error("got an event for a count that has just changed")
	}
	c.pass(settle)
	if v := b.view(); v.Events[2].Unsettled {
		t.Error("got no event for an unchanged count")
	}
	b.run(state("m-03", running, 0, attempt(1, pending, "", 2)))
	if got := b.view().Events[2]; !got.Unsettled || !strings.Contains(got.Text, "3 attempts") {
		t.Errorf("after one more: got %+v", got)
	}
}

func TestBoardPeers(t *testing.T) {
	b, _ := newTestBoard(1)
	b.peers("n1", "n2")
	b.peer("n1", up)
	b.peer("n2", up)
	b.leader("n2")
	if diff := cmp.Diff([]peerView{{ID: "n1", State: up}, {ID: "n2", State: up, Leader: true}},
		b.view().Peers); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
	b.died("n2", "")
	b.leader("n2") // a late observation
	if diff := cmp.Diff([]peerView{{ID: "n1", State: up}, {ID: "n2", State: killed}}, b.view().Peers); diff != "" {
		t.Errorf("peers after a kill (-want +got):\n%s", diff)
	}
}

// The leader dies when a third to a half of the steps are complete, even if there are few.
func TestKillAt(t *testing.T) {
	for n := 1; n < 200; n++ {
		b := newBoard(inventory(n), time.Now)
		b.plan(&holdfastv1.Plan{Steps: make([]*holdfastv1.Step, 5)})
		if share := float64(b.killAt) / float64(5*n); share < 1./3 || share > 0.5 {
			t.Errorf("%d machines: got the kill at %d of %d steps", n, b.killAt, 5*n)
		}
	}
}
