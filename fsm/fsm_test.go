package fsm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestApplyAnswersEachCommand(t *testing.T) {
	p := fsmtest.NewPeer()
	rs := p.Propose(
		fsmtest.Command(registerOp("m-1", nil)),
		fsmtest.Command(registerOp("", nil)),
		fsmtest.Command(&internalv1.NoOp{}),
		fsmtest.Command(startOp("m-1", "request-1", "REBOOT", "")),
	)
	if len(rs) != 4 || rs[0].Err != nil || rs[1].Err == nil || rs[2].Err != nil || rs[3].Err != nil {
		t.Fatalf("got %v", rs)
	}
	for i, want := range []string{"*holdfastv1.Machine", "<nil>", "<nil>", "*holdfastv1.Run"} {
		if got := fmt.Sprintf("%T", rs[i].Value); got != want || rs[i].Index != p.Index {
			t.Errorf("result %d: got a %s at %d, want a %s at %d", i, got, rs[i].Index, want, p.Index)
		}
	}
	if rs := p.Propose(); len(rs) != 0 || p.Applied() != p.Index {
		t.Errorf("an empty entry: got %v, applied %d, want none and %d", rs, p.Applied(), p.Index)
	}
}

// A View includes the index that Applied returned before it was taken. A linearizable read
// waits for Applied and reads from the View.
func TestViewHasAppliedEntries(t *testing.T) {
	p := fsmtest.NewPeer()
	const last = 200_000
	var g errgroup.Group
	for range 2 {
		g.Go(func() error {
			for seen := uint64(0); seen < last; {
				seen = p.Applied()
				if got := p.View().Index(); got < seen {
					return fmt.Errorf("a View goes to %d after %d was applied", got, seen)
				}
			}
			return nil
		})
	}
	for i := p.Index + 1; i <= last; i++ { // an index never goes back
		p.Observe(i, 1)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestObserveMovesTheIndex(t *testing.T) {
	p := populated(t)
	before, changed := dump(t, p), p.Changed()
	p.Observe(100, 7)
	if m := p.View().Meta(); p.Applied() != 100 || m.GetAppliedIndex() != 100 || m.GetAppliedTerm() != 7 ||
		p.View().Index() != 100 {
		t.Errorf("got applied %d, %v, want 100 in term 7", p.Applied(), m)
	}
	select {
	case <-changed:
	default:
		t.Error("Changed: not closed")
	}
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestWaitApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fsmtest.NewPeer()
		if err := p.WaitApplied(t.Context(), p.Index); err != nil {
			t.Errorf("what is applied: got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.WaitApplied(ctx, p.Index+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what never comes: got %v, want %v", err, context.DeadlineExceeded)
		}
		target, done := p.Index+3, false
		go func() {
			if err := p.WaitApplied(t.Context(), target); err != nil {
				t.Errorf("got %v", err)
			}
			done = true
		}()
		for p.Index < target {
			synctest.Wait()
			if done {
				t.Fatalf("returned at %d, before %d", p.Index, target)
			}
			p.Do(&internalv1.NoOp{})
		}
		synctest.Wait()
		if !done {
			t.Error("still waits")
		}
		if p.HaltError() != nil {
			t.Errorf("halt error: got %v", p.HaltError())
		}
	})
}

func TestTheClockNeverGoesBack(t *testing.T) {
	p := fsmtest.NewPeer()
	now := p.Now
	at := func(c *internalv1.Command, when time.Time) *internalv1.Command {
		c.Time = timestamppb.New(when)
		return c
	}
	p.Propose(at(fsmtest.Command(registerOp("m-1", nil)), now.Add(time.Hour)))
	// The clock of this proposer is behind.
	p.Propose(at(fsmtest.Command(registerOp("m-2", nil)), now.Add(-time.Hour)))
	c := fsmtest.Command(registerOp("m-3", nil))
	c.Time, c.FeatureLevel, c.Epoch = nil, 1, 1
	p.Apply(p.Index+1, 1, fsmtest.Encode(c))
	for _, id := range []string{"m-1", "m-2", "m-3"} {
		if got := getMachine(t, p, id).GetCreatedAt().AsTime(); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: created at %v, want %v", id, got, now.Add(time.Hour))
		}
	}
	// A refused command advances it too: its time is that of a leader.
	if r := p.Propose(at(fsmtest.Command(&internalv1.DeleteMachine{MachineId: "nobody"}),
		now.Add(2*time.Hour))); r[0].Err == nil {
		t.Fatal("not refused")
	}
	if got := p.View().Meta().GetNow().AsTime(); !got.Equal(now.Add(2 * time.Hour)) {
		t.Errorf("got %v, want %v", got, now.Add(2*time.Hour))
	}
}

// everything returns all messages that a view returns.
func everything(t *testing.T, v *fsm.View) []proto.Message {
	t.Helper()
	ms := []proto.Message{v.Meta()}
	for m := range v.Machines("") {
		same, _ := v.Machine(m.GetMachineId())
		ms = append(ms, m, same)
		for e := range v.History(m.GetMachineId(), 0) {
			ms = append(ms, e)
		}
		for _, r := range v.MachineRuns(m.GetMachineId(), "") {
			byRequest, _ := v.RunByRequest(r.GetMachineId(), r.GetRequestId())
			ms = append(ms, r, byRequest)
		}
	}
	for p := range v.Plans("") {
		same, _ := v.Plan(p.GetPlanId())
		ms = append(ms, p, same)
	}
	for _, r := range v.Runs("") {
		same, _ := v.Run(r.GetRunId())
		ms = append(ms, r, same)
		for c := range v.RunLog(r.GetRunId(), 1) {
			ms = append(ms, c)
		}
		for _, b := range v.LogBlocks(r.GetRunId()) {
			ms = append(ms, b)
		}
	}
	for _, seq := range []func(func(*holdfastv1.Run) bool){v.ActiveRuns(), v.UncompactedRuns()} {
		for r := range seq {
			ms = append(ms, r)
		}
	}
	events, err := v.RunEvents(0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		ms = append(ms, e)
	}
	for _, p := range v.Peers() {
		same, _ := v.Peer(p.GetId())
		ms = append(ms, p, same)
	}
	return ms
}

// TestChangedMessagesAreFound checks that a guarded FSM panics after a caller has changed a
// message of a view or a result, because the messages are those of the state.
func TestChangedMessagesAreFound(t *testing.T) {
	for name, change := range map[string]func(v *fsm.View, started fsm.Result){
		"nothing": nil,
		"machine's label": func(v *fsm.View, _ fsm.Result) {
			m, _ := v.Machine("m-9")
			m.Labels["a"] = "c"
		},
		"run's time": func(v *fsm.View, _ fsm.Result) {
			for _, r := range v.Runs("") {
				r.CreatedAt.Seconds++
			}
		},
		"run in an event": func(v *fsm.View, _ fsm.Result) {
			es, _ := v.RunEvents(0, 1)
			es[0].Snapshot.Wait.Subject = "x"
		},
		"history": func(v *fsm.View, _ fsm.Result) {
			for e := range v.History("m-9", 0) {
				e.To = "x"
			}
		},
		"plan":          func(v *fsm.View, _ fsm.Result) { p, _ := v.Plan("plan/y"); p.Steps[0].Name = "x" },
		"step of a run": func(_ *fsm.View, r fsm.Result) { r.Value.(*holdfastv1.Run).Steps[0].Name = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			p := furnished()
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-9",
				Labels: map[string]string{"a": "b"}, Spec: &holdfastv1.MachineSpec{}}})
			do(t, p, &internalv1.CreatePlan{Plan: planOf("plan/y", "ssh")})
			r := p.Do(&internalv1.StartRun{RunId: "run-9", MachineId: "m-9", RequestId: "r", PlanId: "plan/y"})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if change != nil {
				change(p.View(), r)
			}
			defer func() {
				if found := recover(); (found != nil) != (change != nil) {
					t.Errorf("got %v, want a panic only if something was changed", found)
				}
			}()
			snapshotBytes(t, p.FSM)
		})
	}
}

func TestViewsAreFrozen(t *testing.T) {
	p := populated(t)
	view := p.View()
	if p.View() != view {
		t.Error("two views of one state: want them shared")
	}
	before := everything(t, view)
	end(t, p, "run-request-2", succeeded)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	do(t, p, &internalv1.RemovePeer{Id: "p1"})
	register(t, p, "m-3", ready)
	p.Lead(9)
	if p.View() == view {
		t.Fatal("the view is shared over a change")
	}
	same(t, "an older view", before, everything(t, view))
}

// TestReadersDuringWrites reads views from several goroutines while entries are applied. Run
// it with -race.
func TestReadersDuringWrites(t *testing.T) {
	p := fsmtest.NewPeer()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				changed := p.Changed()
				if err := fsmtest.Check(p.View()); err != nil {
					t.Error(err)
					return
				}
				if s, err := p.Snapshot(); err != nil {
					t.Error(err)
				} else if _, err := s.WriteTo(new(bytes.Buffer)); err != nil {
					t.Error(err)
				}
				select {
				case <-changed:
				case <-stop:
					return
				}
			}
		})
	}
	for i := range 60 {
		m := fmt.Sprintf("m-%d", i%7)
		register(t, p, m, ready)
		do(t, p, startOp(m, fmt.Sprintf("request-%d", i), "REBOOT", ""))
		run := fmt.Sprintf("run-request-%d", i)
		begin(t, p, run)
		do(t, p, appendOp(logAppend(run, 0, strings.Repeat("log line\n", i))))
		finishOpen(t, p, run)
		if i%5 == 0 {
			do(t, p, &internalv1.DeleteMachine{MachineId: m})
		}
	}
	close(stop)
	readers.Wait()
	if n := len(slices.Collect(p.View().ActiveRuns())); n != 0 {
		t.Errorf("active runs: got %d, want none", n)
	}
}

// finishOpen ends the open attempt of the only step of a run.
func finishOpen(t *testing.T, p *fsmtest.Peer, run string) {
	t.Helper()
	if r := end(t, p, run, succeeded); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("got %v, want SUCCEEDED", r)
	}
}
