package fsm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// unknownField is field 500 with the value 1, as from a newer build.
var unknownField = protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 1)

// future adds an unknown field to a message.
func future[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(unknownField)
	return m
}

func TestUnknownCommandsHalt(t *testing.T) {
	register := func(m *holdfastv1.Machine) *internalv1.Command {
		return fsmtest.Command(&internalv1.RegisterMachine{Machine: m})
	}
	step := func(s *holdfastv1.Step) *internalv1.Command {
		return fsmtest.Command(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "p",
			Steps: []*holdfastv1.Step{fsmtest.Step("ssh"), s}}})
	}
	noOp := func(change func(*internalv1.Command)) *internalv1.Command {
		c := fsmtest.Command(&internalv1.NoOp{})
		change(c)
		return c
	}
	tests := []struct {
		name string
		c    *internalv1.Command
	}{
		{"level", noOp(func(c *internalv1.Command) { c.FeatureLevel = fsm.FeatureLevel + 1 })},
		{"no operation", &internalv1.Command{}},
		{"operation", future(&internalv1.Command{})},
		{"field of the command", future(noOp(func(*internalv1.Command) {}))},
		{"field of the operation", fsmtest.Command(future(&internalv1.NoOp{}))},
		{"field of the time",
			noOp(func(c *internalv1.Command) { c.Time = future(&timestamppb.Timestamp{Seconds: 1_769_699_400}) })},
		{"nested field", register(&holdfastv1.Machine{MachineId: "m", Spec: future(&holdfastv1.MachineSpec{Rack: "r7"})})},
		{"field in a list", register(&holdfastv1.Machine{MachineId: "m", Status: &holdfastv1.MachineStatus{
			Conditions: []*holdfastv1.Condition{{Type: "Reachable"}, future(&holdfastv1.Condition{Type: "Degraded"})}}})},
		{"enum value", register(&holdfastv1.Machine{MachineId: "m", Status: &holdfastv1.MachineStatus{Phase: 99}})},
		{"enum value of the operation", fsmtest.Command(&internalv1.SetMachinePhase{MachineId: "m", Phase: 99})},
		{"negative enum value", fsmtest.Command(&internalv1.EndAttempt{Outcome: -1})},
		{"step kind", step(future(&holdfastv1.Step{Name: "x"}))},
		{"field of a step", step(future(fsmtest.Step("reboot")))},
		{"field in a oneof in a list",
			step(&holdfastv1.Step{Name: "x", Kind: &holdfastv1.Step_Reboot{Reboot: future(&holdfastv1.Reboot{})}})},
		{"field of a well-known type", step(&holdfastv1.Step{Name: "x", Kind: &holdfastv1.Step_Verify{
			Verify: &holdfastv1.VerifyInCluster{Timeout: future(durationpb.New(5))}}})},
		{"codec of a log", fsmtest.Command(&internalv1.CompactRunLog{Block: &internalv1.LogBlock{Codec: 7}})},
		{"field of a log chunk",
			fsmtest.Command(&internalv1.AppendRunLogs{
				Appends: []*internalv1.LogAppend{{Chunks: []*holdfastv1.LogChunk{future(&holdfastv1.LogChunk{})}}}})},
		{"level to raise to", fsmtest.Command(&internalv1.RaiseFeatureLevel{Level: fsm.FeatureLevel + 1})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := populated(t)
			before := dump(t, p)
			view := p.View()
			if rs := p.Propose(fsmtest.Command(&internalv1.DeleteMachine{MachineId: "m-1"}), proto.CloneOf(tt.c)); rs != nil {
				t.Errorf("results: got %v, want none", rs)
			}
			select {
			case <-p.Halted():
			default:
				t.Fatal("not halted")
			}
			if err := p.HaltError(); err == nil || !strings.Contains(err.Error(), "upgrade it") {
				t.Errorf("HaltError: got %v, want one that says what to do", err)
			}
			if p.View() != view || p.Applied() != view.Index() {
				t.Error("the entry was applied in part")
			}
			if rs := p.Propose(fsmtest.Command(&internalv1.NoOp{})); rs != nil || p.Applied() != view.Index() {
				t.Error("a halted FSM goes on")
			}
			p.Observe(p.Index+1, 9)
			if p.Applied() != view.Index() {
				t.Error("a halted FSM observes")
			}
			if err := p.WaitApplied(context.Background(), p.Index+1); !errors.Is(err, p.HaltError()) {
				t.Errorf("WaitApplied: got %v, want %v", err, p.HaltError())
			}

			// The same command is skipped if its proposer allows it, and the rest of the
			// entry applies.
			q := populated(t)
			c := proto.CloneOf(tt.c)
			c.Ignorable = true
			rs := q.Propose(c, fsmtest.Command(&internalv1.DeleteMachine{MachineId: "m-1"}))
			if q.HaltError() != nil || len(rs) != 2 || rs[0].Err != nil || rs[0].Value != nil || rs[1].Err != nil {
				t.Fatalf("ignorable: got %v, halt error %v, want two results without errors", rs, q.HaltError())
			}
			if _, ok := q.View().Machine("m-1"); ok {
				t.Error("ignorable: the command after it was not applied")
			}
			want := &fsmtest.Dump{Meta: proto.CloneOf(before.Meta), Records: before.Records}
			want.Meta.LastEvent++ // of the deleted machine
			if diff := want.Diff(dump(t, q)); strings.Contains(diff, "meta") {
				t.Errorf("ignorable: %s", diff)
			}
		})
	}
}

func TestUnknownEntriesHalt(t *testing.T) {
	entry := fsmtest.Encode(fsmtest.Command(&internalv1.NoOp{}))
	for name, data := range map[string][]byte{
		"not an entry":         []byte("\xff\xff"),
		"cut":                  entry[:len(entry)-1],
		"string not UTF-8":     badString(),
		"field of the entry":   append([]byte(nil), append(entry, unknownField...)...),
		"nothing but a future": unknownField,
	} {
		t.Run(name, func(t *testing.T) {
			f := fsm.New()
			if rs := f.Apply(1, 1, data); rs != nil || f.HaltError() == nil || f.Applied() != 0 {
				t.Errorf("got %v, halt error %v, applied %d, want a halt at 0", rs, f.HaltError(), f.Applied())
			}
		})
	}
}

// badString is an entry whose command has a principal that is not UTF-8.
func badString() []byte {
	cmd := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte("\xc3("))
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), cmd)
}

// TestSkippedCommandsMoveTheClock compares a peer that skips a command with one that
// understands it. Later commands must have the same times on both.
func TestSkippedCommandsMoveTheClock(t *testing.T) {
	older, newer := fsmtest.NewPeer(), fsmtest.NewPeer()
	late := timestamppb.New(older.Now.Add(1000e9))
	skipped := future(fsmtest.Command(&internalv1.NoOp{}))
	skipped.Time, skipped.Ignorable = late, true
	older.Propose(skipped)
	known := fsmtest.Command(&internalv1.NoOp{})
	known.Time, known.Ignorable = late, true
	newer.Propose(known)
	for _, p := range []*fsmtest.Peer{older, newer} {
		register(t, p, "m-1", ready)
		same(t, "created_at", late, getMachine(t, p, "m-1").GetCreatedAt())
	}
	if diff := dump(t, older).Diff(dump(t, newer)); diff != "" {
		t.Errorf("the peer that skipped a command differs:\n%s", diff)
	}
}

// TestEveryOperationIsDispatched applies the empty form of every operation.
func TestEveryOperationIsDispatched(t *testing.T) {
	fields := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		t.Run(string(fd.Name()), func(t *testing.T) {
			for _, p := range []*fsmtest.Peer{populated(t), {FSM: fsm.New()}} {
				c := &internalv1.Command{}
				c.ProtoReflect().Set(fd, c.ProtoReflect().NewField(fd))
				rs := p.Propose(c)
				if p.HaltError() != nil || len(rs) != 1 || rs[0].Index != p.Index {
					t.Errorf("got %v, halt error %v, want one result at %d", rs, p.HaltError(), p.Index)
				}
			}
		})
	}
}
