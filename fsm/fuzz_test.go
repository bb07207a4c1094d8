package fsm_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// lived returns a peer that has applied a random log.
func lived(seed uint64, commands int) *fsmtest.Peer {
	p, g := furnished(), &fsmtest.Generator{Chooser: seeded{rand.New(rand.NewPCG(seed, 2))}}
	for range commands {
		p.Propose(g.Next(p.View()))
	}
	return p
}

// FuzzApply applies arbitrary bytes as an entry. They are understood and applied, or the FSM
// halts unchanged. It never panics, and every applied entry keeps all invariants.
func FuzzApply(f *testing.F) {
	base := lived(1, 120)
	whole, err := fsmtest.Bytes(base.FSM)
	if err != nil {
		f.Fatal(err)
	}
	g := &fsmtest.Generator{Chooser: seeded{rand.New(rand.NewPCG(3, 3))}}
	for range 60 {
		f.Add(fsmtest.Encode(g.Next(base.View())))
		f.Add(fsmtest.Encode(g.Next(base.View()), g.Next(base.View())))
	}
	fields := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		c := &internalv1.Command{Epoch: base.View().Meta().GetEpoch()}
		c.ProtoReflect().Set(fields.Get(i), c.ProtoReflect().NewField(fields.Get(i)))
		f.Add(fsmtest.Encode(c))
		for _, o := range []*internalv1.Origin{{}, operator("pool-1"), agent("m-1"), {TokenId: "token-1"}} {
			c.Origin = o
			f.Add(fsmtest.Encode(c))
		}
	}
	f.Add([]byte{})
	f.Add([]byte("\xff"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		p := &fsmtest.Peer{FSM: fsm.New()}
		if err := p.Restore(bytes.NewReader(whole)); err != nil {
			t.Fatal(err)
		}
		before, index := p.View(), base.Index+1
		results := p.Apply(index, base.Term, entry)
		if p.HaltError() != nil {
			if p.View() != before || results != nil {
				t.Fatalf("halted (%v), and yet something was applied", p.HaltError())
			}
			return
		}
		var e internalv1.Entry
		if err := proto.Unmarshal(entry, &e); err != nil || len(results) != len(e.GetCommands()) || p.Applied() != index {
			t.Fatalf("%d results for %d commands, applied %d, want %d (%v)", len(results), len(e.GetCommands()), p.Applied(),
				index, err)
		}
		for _, r := range results {
			if (r.Err != nil && (r.Value != nil || r.Err.Message == "" || r.Err.Reason == "" || r.Err.Code == 0)) ||
				r.Index != index {
				t.Errorf("result: got %+v", r)
			}
		}
		v := p.View()
		if err := fsmtest.Check(v); err != nil {
			t.Error(err)
		}
		if err := fsmtest.CheckStep(before, v); err != nil {
			t.Error(err)
		}
		q := fsm.New()
		b := snapshotBytes(t, p.FSM)
		if err := q.Restore(bytes.NewReader(b)); err != nil || !bytes.Equal(snapshotBytes(t, q), b) {
			t.Errorf("the state does not come back from its snapshot: %v", err)
		}
	})
}

// sealed returns a stream with a valid trailer, so that a fuzzer gets past the checksum.
func sealed(data []byte) []byte {
	in := bufio.NewReader(bytes.NewReader(data))
	var body bytes.Buffer
	records := -1 // the header does not count
	for {
		size, err := binary.ReadUvarint(in)
		if err != nil || size == 0 || size > uint64(len(data)) {
			break
		}
		msg := make([]byte, size)
		if n, _ := in.Read(msg); n < len(msg) {
			break
		}
		body.Write(binary.AppendUvarint(nil, size))
		body.Write(msg)
		records++
	}
	body.WriteByte(0) // the empty record
	trailer := &internalv1.SnapshotTrailer{Records: uint64(max(0, records)), Checksum: xxhash.Sum64(body.Bytes())}
	if _, err := protodelim.MarshalTo(&body, trailer); err != nil {
		panic(err)
	}
	return body.Bytes()
}

// FuzzRestore restores arbitrary bytes, as they are or with a valid trailer. The result is an
// error that changes nothing, or a state that its own snapshot restores.
func FuzzRestore(f *testing.F) {
	for seed := range uint64(4) {
		p := lived(seed, int(seed)*15)
		b, err := fsmtest.Bytes(p.FSM)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
		f.Add(b[:len(b)/2], true)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(data)
		}
		p := fsm.New()
		before := p.View()
		if err := p.Restore(bytes.NewReader(data)); err != nil {
			if p.View() != before {
				t.Fatalf("refused (%v), and yet the state has changed", err)
			}
			return
		}
		if p.View().Index() != p.Applied() {
			t.Errorf("applied %d, the view is at %d", p.Applied(), p.View().Index())
		}
		b, q := snapshotBytes(t, p), fsm.New()
		if err := q.Restore(bytes.NewReader(b)); err != nil || !bytes.Equal(snapshotBytes(t, q), b) {
			t.Errorf("the state does not come back from its snapshot: %v", err)
		}
	})
}

// wellNamed reports whether violations name fields of the request.
func wellNamed(bad []fsm.FieldViolation, prefix string) bool {
	return !slices.ContainsFunc(bad, func(v fsm.FieldViolation) bool {
		return !strings.HasPrefix(v.Field, prefix) || v.Description == ""
	})
}

// FuzzValidatePlan checks arbitrary plans. Validating a valid plan again does not change it,
// and the FSM accepts it.
func FuzzValidatePlan(f *testing.F) {
	for _, p := range append(fsm.DefaultPlans(), planOf("plan/x", fsmtest.Kinds()...), planOf("", "ssh", "ssh"),
		&holdfastv1.Plan{}) {
		b, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p holdfastv1.Plan
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		bad := fsm.ValidatePlan(&p)
		if !wellNamed(bad, "plan.") {
			t.Errorf("violations: got %v", bad)
		}
		once := proto.CloneOf(&p)
		again := fsm.ValidatePlan(&p)
		if !slices.Equal(bad, again) || !proto.Equal(once, &p) {
			t.Errorf("twice: got %v and then %v\n%v\n%v", bad, again, once, &p)
		}
		peer := &fsmtest.Peer{FSM: fsm.New()}
		if rs := peer.Propose(fsmtest.Command(&internalv1.CreatePlan{Plan: &p})); peer.HaltError() == nil &&
			(rs[0].Err != nil) != (len(bad) > 0) {
			t.Errorf("violations %v, and the FSM says %v", bad, rs[0].Err)
		}
	})
}

// FuzzNormalizeMachine normalizes arbitrary machines. Normalizing a valid one again does not
// change it, and the FSM accepts it.
func FuzzNormalizeMachine(f *testing.F) {
	for m := range lived(1, 100).View().Machines("") {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, m := range []*holdfastv1.Machine{
		{MachineId: "a/b", Labels: map[string]string{"a b": "", "example.com/x": "y"}},
		{MachineId: "m", Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"AA-BB-CC-DD-EE-FF", "aabb.ccdd.eeff", "x"},
			BmcEndpoint: " a b ", Rack: "\u00a0r\n7"}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m holdfastv1.Machine
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		bad := fsm.NormalizeMachine(&m)
		if !wellNamed(bad, "machine.") {
			t.Errorf("violations: got %v", bad)
		}
		if len(bad) > 0 {
			return
		}
		once := proto.CloneOf(&m)
		if again := fsm.NormalizeMachine(&m); len(again) > 0 || !proto.Equal(once, &m) {
			t.Errorf("twice: got %v\n%v\n%v", again, once, &m)
		}
		peer := &fsmtest.Peer{FSM: fsm.New()}
		if rs := peer.Propose(fsmtest.Command(&internalv1.RegisterMachine{Machine: &m})); peer.HaltError() == nil &&
			m.GetMachineId() != "" && rs[0].Err != nil {
			t.Errorf("good, and the FSM says %v", rs[0].Err)
		}
	})
}
