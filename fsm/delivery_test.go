package fsm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// deliver applies an operation as a delivery.
func deliver(p *fsmtest.Peer, d *internalv1.Delivery, op proto.Message) fsm.Result {
	c := fsmtest.Command(op)
	c.Delivery = proto.CloneOf(d)
	return p.Propose(c)[0]
}

func newNode(id, mac string) *internalv1.CreateNode {
	return &internalv1.CreateNode{MachineId: id, GeneratedId: true, MacAddress: mac}
}

// The second delivery of a command has the outcome of the first and changes nothing.
func TestDelivery(t *testing.T) {
	p := fsmtest.NewPeer()
	first, again := &internalv1.Delivery{Id: "d1"}, &internalv1.Delivery{Id: "d1", Again: true}
	one := deliver(p, first, newNode("a", "02:00:00:00:00:01"))
	if one.Err != nil {
		t.Fatal(one.Err)
	}
	before := dump(t, p)
	for _, d := range []*internalv1.Delivery{first, again} {
		two := deliver(p, d, newNode("b", "02:00:00:00:00:01"))
		if diff := cmp.Diff(one.Value, two.Value, protocmp.Transform()); two.Err != nil || diff != "" {
			t.Errorf("second delivery: got %v, other than the first:\n%s", two.Err, diff)
		}
	}
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("second deliveries have changed:\n%s", diff)
	}
	// A command without a result.
	gone := &internalv1.Delivery{Id: "d2"}
	for range 2 {
		if r := deliver(p, gone, &internalv1.DeleteMachine{MachineId: "a"}); r.Err != nil || r.Value != nil {
			t.Errorf("delete: got %v, %v", r.Value, r.Err)
		}
	}
	// A refusal has changed nothing, so it is not remembered.
	late := &internalv1.Delivery{Id: "d3"}
	if r := deliver(p, late, &internalv1.DeleteMachine{MachineId: "c"}); r.Err == nil {
		t.Error("deleted a machine that does not exist")
	}
	do(t, p, newNode("c", "02:00:00:00:00:03"))
	if r := deliver(p, late, &internalv1.DeleteMachine{MachineId: "c"}); r.Err != nil {
		t.Errorf("second delivery of a refused command: %v", r.Err)
	}
	for _, id := range []string{"", strings.Repeat("x", 257)} {
		if r := deliver(p, &internalv1.Delivery{Id: id}, newNode("e", "02:00:00:00:00:05")); r.Err == nil {
			t.Errorf("took a delivery with an id of %d bytes", len(id))
		}
	}
}

// A failed installation that is reported twice counts twice, and once if one report is delivered
// twice.
func TestDeliveryOfFailures(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, newNode("a", "02:00:00:00:00:01"))
	do(t, p, &internalv1.TransitionNode{Id: "a", State: holdfastv1.Node_PENDING})
	report := func(d *internalv1.Delivery, status string) int32 {
		t.Helper()
		r := deliver(p, d, &internalv1.ReportNode{RunId: "run-1", MachineId: "x", Report: &holdfastv1.ReportNodeRequest{
			MacAddress: "02:00:00:00:00:01", InstallationStatus: status, InstallationError: "disk",
		}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Value.(*holdfastv1.Machine).GetNode().GetInstallAttempts()
	}
	report(nil, "started")
	for i, tt := range []struct {
		id   string
		want int32
	}{{"f1", 1}, {"f1", 1}, {"f2", 2}, {"f2", 2}} {
		if got := report(&internalv1.Delivery{Id: tt.id}, "failed"); got != tt.want {
			t.Errorf("report %d: got %d attempts, want %d", i, got, tt.want)
		}
	}
}

// The memory is bounded in number, size and time. A delivery whose outcome may be forgotten is
// refused, and never applied twice.
func TestDeliveryIsForgotten(t *testing.T) {
	p := fsmtest.NewPeer()
	first := &internalv1.Delivery{Id: "first", Since: p.Index}
	if r := deliver(p, first, newNode("a", "02:00:00:00:00:01")); r.Err != nil {
		t.Fatal(r.Err)
	}
	old := p.Index
	p.Now = p.Now.Add(6 * time.Minute)
	if r := deliver(p, &internalv1.Delivery{Id: "other"}, newNode("b", "02:00:00:00:00:02")); r.Err != nil {
		t.Fatal(r.Err)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "a"})
	again := &internalv1.Delivery{Id: "first", Since: first.GetSince(), Again: true}
	r := deliver(p, again, newNode("c", "02:00:00:00:00:01"))
	if r.Err == nil || r.Err.Reason != fsm.ReasonForgotten {
		t.Errorf("got %v, want %s", r.Err, fsm.ReasonForgotten)
	}
	// A call that came after all that was forgotten was certainly not applied.
	if r := deliver(p, &internalv1.Delivery{Id: "new", Since: old, Again: true},
		newNode("d", "02:00:00:00:00:04")); r.Err != nil {
		t.Error(r.Err)
	}

	many := make([]*internalv1.Command, 1000)
	for n := range 40 {
		for i := range many {
			many[i] = fsmtest.Command(&internalv1.NoOp{})
			many[i].Delivery = &internalv1.Delivery{Id: fmt.Sprintf("b%d", n*1000+i)}
			many[i].Time = timestamppb.New(p.Now)
		}
		p.Propose(many...)
	}
	outcomes := 0
	for k := range dump(t, p).Records {
		if strings.HasPrefix(k, "OUTCOMES/") {
			outcomes++
		}
	}
	if want := 1 << 15; outcomes != want {
		t.Errorf("got %d remembered outcomes, want %d", outcomes, want)
	}
}

// Large outcomes are bounded in size: the oldest are forgotten, one command forgets a limited
// number, and the newest outcome is kept even if it alone exceeds the limit.
func TestDeliveryBytes(t *testing.T) {
	p := fsmtest.NewPeer()
	large := func(id string) *internalv1.RegisterMachine {
		m := &holdfastv1.Machine{MachineId: id, Labels: map[string]string{}, Spec: &holdfastv1.MachineSpec{}}
		for i := range 250 {
			m.Labels[fmt.Sprint("label-", i)] = strings.Repeat("x", 256)
		}
		return &internalv1.RegisterMachine{Machine: m}
	}
	const most = 16 << 20
	size, now := 0, p.Now
	for i := range 400 { // 70 kB each
		id := fmt.Sprint("d", i)
		p.Now = now // else the age would forget them
		r := deliver(p, &internalv1.Delivery{Id: id, Since: p.Index}, large("m-"+fmt.Sprint(i%4)))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		size = max(size, proto.Size(r.Value))
		meta := p.View().Meta()
		if got := meta.GetOutcomeBytes(); got > most {
			t.Fatalf("after %d: got %d bytes of outcomes, at most %d are allowed", i, got, most)
		}
		if two := deliver(p, &internalv1.Delivery{Id: id, Again: true}, large("other")); two.Err != nil ||
			two.Value.(*holdfastv1.Machine).GetMachineId() == "other" {
			t.Fatalf("second delivery of %s: got %v, %v, want the outcome of the first", id, two.Value, two.Err)
		}
	}
	kept, bytes := 0, uint64(0)
	for k, v := range dump(t, p).Records {
		if strings.HasPrefix(k, "OUTCOMES/") {
			kept++
			bytes += uint64(len(v))
		}
	}
	if least := most/size - 2; kept < least || kept > most/(size-100) {
		t.Errorf("got %d outcomes of about %d bytes, want about %d", kept, size, most/size)
	}
	if got := p.View().Meta().GetOutcomeBytes(); got != bytes {
		t.Errorf("got a size of %d, want that of the records, %d", got, bytes)
	}
}

// TestDeliveries delivers random commands, and some of them again, as peers do that lost an answer.
// A second delivery changes nothing and has the outcome of the first.
func TestDeliveries(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := furnished()
		g := &fsmtest.Generator{Chooser: drawn{r}}
		type sent struct {
			c     *internalv1.Command
			value proto.Message
		}
		var accepted []sent
		for i := range rapid.IntRange(5, 60).Draw(r, "commands") {
			c := g.Next(p.View())
			c.Delivery = &internalv1.Delivery{Id: fmt.Sprint("d", i), Since: p.Index}
			if res := p.Propose(proto.CloneOf(c))[0]; res.Err == nil {
				accepted = append(accepted, sent{c, res.Value})
			}
			if len(accepted) == 0 || rapid.IntRange(0, 2).Draw(r, "again") > 0 {
				continue
			}
			s := accepted[rapid.IntRange(max(0, len(accepted)-8), len(accepted)-1).Draw(r, "which")]
			if _, ok := s.c.GetOp().(*internalv1.Command_RestoreBackup); ok || p.View().Meta().GetForgottenOutcome() > 0 {
				continue // a restore forgets what was before it
			}
			two := proto.CloneOf(s.c)
			two.Delivery.Again = true
			two.Epoch, two.Time = p.View().Meta().GetEpoch(), nil
			before := dump(t, p)
			res := p.Propose(two)[0]
			if diff := cmp.Diff(s.value, res.Value, protocmp.Transform()); res.Err != nil || diff != "" {
				r.Fatalf("second delivery of %v: got %v, another outcome:\n%s", s.c, res.Err, diff)
			}
			if diff := before.Diff(dump(t, p)); diff != "" {
				r.Fatalf("second delivery of %v has changed:\n%s", s.c, diff)
			}
		}
	})
}
