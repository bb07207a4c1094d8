package fsm_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// rampLab has machines with pending runs of plan/image, whose only step installs an image.
func rampLab(t *testing.T, machines int, image func(i int) string) (*fsmtest.Peer, []string) {
	t.Helper()
	p := fsmtest.NewPeer()
	plan(t, p, "plan/image", "repave")
	var runs []string
	for i := range machines {
		m := fmt.Sprintf("m-%04d", i)
		register(t, p, m, ready)
		op := startOp(m, m, "", "plan/image")
		op.Params = map[string]string{"image": image(i)}
		do(t, p, op)
		runs = append(runs, op.GetRunId())
	}
	return p, runs
}

// beginAll begins the runs that may begin, in order, and returns those that have begun and
// those that wait.
func beginAll(t *testing.T, p *fsmtest.Peer, runs []string) (begun, waiting []string) {
	t.Helper()
	for _, id := range runs {
		run := getRun(t, p, id)
		r := p.Do(&internalv1.BeginAttempt{RunId: id, Step: run.GetCurrentStep(), Attempt: 1})
		switch {
		case r.Err == nil:
			begun = append(begun, id)
		case r.Err.Reason == fsm.ReasonPlanHeld:
			waiting = append(waiting, id)
		default:
			t.Fatal(r.Err)
		}
	}
	return begun, waiting
}

func oneImage(int) string { return "ubuntu" }

// A bad image reaches at most 10 of 1,000 machines, even if its installs fail one at a time
// and for different reasons.
func TestRampStopsBadImage(t *testing.T) {
	p, waiting := rampLab(t, 1000, oneImage)
	var atWork []string
	written := 0
	for {
		var begun []string
		begun, waiting = beginAll(t, p, waiting[:min(len(waiting), 20)])
		written += len(begun)
		if atWork = append(atWork, begun...); len(atWork) == 0 {
			break
		}
		step, n := current(t, p, atWork[0])
		do(t, p, &internalv1.EndAttempt{RunId: atWork[0], Step: step, Attempt: n, Outcome: failed, Permanent: true,
			Error: "no disk", ErrorClass: fmt.Sprint("class", len(atWork)*written)})
		atWork = atWork[1:]
	}
	got, _ := p.View().Plan("plan/image")
	if written > 10 || got.GetBrake() == nil {
		t.Errorf("%d disks were written, brake %v: want at most 10, and a plan that is held", written, got.GetBrake())
	}
}

// The number of concurrent runs doubles from wave to wave as runs succeed. Each image has its
// own ramp, and a snapshot keeps it.
func TestRampGrows(t *testing.T) {
	p, waiting := rampLab(t, 100, oneImage)
	var got []int
	for len(waiting) > 0 {
		var begun []string
		begun, waiting = beginAll(t, p, waiting)
		got = append(got, len(begun))
		if len(waiting) > 0 {
			run := getRun(t, p, waiting[0])
			same(t, "wait", &holdfastv1.Wait{Kind: holdfastv1.Wait_RAMP, Subject: "plan/image", Value: "ubuntu",
				Number: int32(len(begun)), Since: run.GetCreatedAt()}, run.GetWait())
		}
		for _, id := range begun {
			end(t, p, id, succeeded)
		}
		snapshot := snapshotBytes(t, p.FSM)
		p.FSM = fsm.New()
		if err := p.Restore(bytes.NewReader(snapshot)); err != nil {
			t.Fatal(err)
		}
		p.Lead(p.Term + 1)
	}
	if diff := cmp.Diff([]int{5, 10, 20, 40, 25}, got); diff != "" {
		t.Errorf("runs begun in each wave (-want +got):\n%s", diff)
	}
}

func TestRampRules(t *testing.T) {
	limit := func(p *fsmtest.Peer, image string) int {
		n := 0
		for n < 1000 && p.View().MayBegin(fsm.Cohort{Plan: "plan/image", Image: image}, n) {
			n++
		}
		return n
	}
	grown := func(t *testing.T) (*fsmtest.Peer, []string) { // 15 runs have succeeded
		p, waiting := rampLab(t, 40, oneImage)
		for range 2 {
			var begun []string
			begun, waiting = beginAll(t, p, waiting)
			for _, id := range begun {
				end(t, p, id, succeeded)
			}
		}
		return p, waiting
	}
	t.Run("a failure halves it", func(t *testing.T) {
		p, waiting := grown(t)
		begin(t, p, waiting[0])
		end(t, p, waiting[0], failed)
		if got := limit(p, "ubuntu"); got != 10 {
			t.Errorf("limit %d, want 10", got)
		}
	})
	t.Run("another image begins with 5", func(t *testing.T) {
		p, _ := grown(t)
		if got := []int{limit(p, "ubuntu"), limit(p, "debian")}; !cmp.Equal(got, []int{20, 5}) {
			t.Errorf("limits %v, want 20 and 5", got)
		}
	})
	t.Run("after an hour without runs it begins again", func(t *testing.T) {
		p, waiting := grown(t)
		for range 121 { // a single command cannot move the clock far
			p.Now = p.Now.Add(30 * time.Second)
			do(t, p, &internalv1.NoOp{})
		}
		begin(t, p, waiting[0])
		if got := limit(p, "ubuntu"); got != 5 {
			t.Errorf("limit %d, want 5", got)
		}
	})
	t.Run("an operator's limit replaces it", func(t *testing.T) {
		p, waiting := grown(t)
		do(t, p, &internalv1.ReleasePlan{PlanId: "plan/image", MaxActive: proto.Int32(7)})
		begun, waiting := beginAll(t, p, waiting)
		if len(begun) != 7 {
			t.Errorf("%d runs begin, want 7", len(begun))
		}
		if w := getRun(t, p, waiting[0]).GetWait(); w.GetKind() != holdfastv1.Wait_PLAN_LIMIT || w.GetNumber() != 7 {
			t.Errorf("it waits for %v, want the operator's limit", w)
		}
		do(t, p, &internalv1.ReleasePlan{PlanId: "plan/image", MaxActive: proto.Int32(0)})
		if got := limit(p, "ubuntu"); got != 5 {
			t.Errorf("after its removal the limit is %d, want 5", got)
		}
		refused(t, p, &internalv1.ReleasePlan{PlanId: "plan/image", MaxActive: proto.Int32(-1)}, fsm.InvalidArgument,
			"INVALID_FIELD")
	})
	t.Run("a plan that only runs commands has none", func(t *testing.T) {
		p := fsmtest.NewPeer()
		plan(t, p, "plan/image", "ssh")
		if got := limit(p, ""); got != 1000 {
			t.Errorf("limit %d, want none", got)
		}
	})
	t.Run("one bad machine does not hold the plan", func(t *testing.T) {
		p, waiting := grown(t)
		for i := range 8 {
			begin(t, p, waiting[0])
			end(t, p, waiting[0], failed)
			op := startOp("m-0015", fmt.Sprint("again-", i), "", "plan/image")
			op.Params = map[string]string{"image": "ubuntu"}
			do(t, p, op)
			waiting[0] = op.GetRunId()
		}
		var got *holdfastv1.Plan
		if got, _ = p.View().Plan("plan/image"); got.GetBrake() != nil {
			t.Errorf("plan %v, want one that is not held", got)
		}
	})
}
