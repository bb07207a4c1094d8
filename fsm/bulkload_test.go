package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/btree"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestIntakeFillsAsPutDoes checks that a table loaded from a snapshot has the same trees as
// one written row by row, also after more writes.
func TestIntakeFillsAsPutDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	machine := func(i int) *holdfastv1.Machine {
		labels := map[string]string{"rack": fmt.Sprint("r", rng.IntN(7)), "own": fmt.Sprint(i), "": "no name"}
		for range rng.IntN(4) {
			labels[fmt.Sprint("k", rng.IntN(3))] = fmt.Sprint(rng.IntN(3))
		}
		return &holdfastv1.Machine{MachineId: fmt.Sprint("m-", i), Labels: labels, Spec: &holdfastv1.MachineSpec{
			Pool: fmt.Sprint("p", rng.IntN(3)), Serial: fmt.Sprint("s",
				rng.IntN(1<<30)), MacAddresses: []string{fmt.Sprint(rng.IntN(1 << 30)), "twice", "twice"}}}
	}
	a := newState()
	for i := range 5*batchRows + 7 {
		a.machines.put(machine(i))
	}
	var file bytes.Buffer
	if _, err := (&Snapshot{state: a}).WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	b, _, err := readSnapshot(&file, true)
	if err != nil {
		t.Fatal(err)
	}
	for what := range []int{0, 1} {
		if diff := cmp.Diff(trees(a.machines), trees(b.machines)); diff != "" {
			t.Fatalf("round %d (-put +filled):\n%s", what, diff)
		}
		for i := range 2000 {
			if m := machine(i); rng.IntN(4) == 0 {
				a.machines.delete(m.GetMachineId())
				b.machines.delete(m.GetMachineId())
			} else {
				a.machines.put(m)
				b.machines.put(m)
			}
		}
	}
}

// trees returns the contents of a table's trees, in order.
func trees[P proto.Message](t *table[P]) []string {
	var all []string
	t.rows.Scan(func(r *record) bool {
		all = append(all, fmt.Sprintf("%s %x %v", r.key, r.value, r.index))
		return true
	})
	for i, ix := range t.indexes {
		ix.Scan(func(e entry) bool {
			all = append(all, fmt.Sprintf("index %d: %s %s", i, e.key, e.rec.key))
			return true
		})
		if n := count(ix); n != ix.Len() {
			all = append(all, fmt.Sprintf("index %d says that it has %d, and has %d", i, ix.Len(), n))
		}
	}
	t.facets.Scan(func(m membership) bool {
		all = append(all, fmt.Sprintf("facet %s=%s: %s", m.facet.path, m.facet.value, m.row))
		return true
	})
	return all
}

func count[T any](tree *btree.BTreeG[T]) (n int) {
	tree.Scan(func(T) bool { n++; return true })
	return n
}

// TestIntakeRefusesDisorder checks that rows out of order and duplicate rows are refused,
// even with a valid checksum.
func TestIntakeRefusesDisorder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}, {"a", "c", "b"}} {
		var rows []incoming
		for _, k := range keys {
			value, err := proto.Marshal(&holdfastv1.Machine{MachineId: k})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, incoming{record: &record{key: k, value: value}})
		}
		for _, keep := range []bool{true, false} {
			in := newTable(machineSchema()).newLoader(keep)
			if err := in.prepare(rows); err != nil {
				t.Fatal(err)
			}
			if err := in.add(rows); err == nil || !strings.Contains(err.Error(), "comes after") {
				t.Errorf("rows %v, kept %v: got %v, want that one comes after another", keys, keep, err)
			}
		}
	}
}

// TestFirstFaultIsTold checks that the first of two invalid rows is reported, although
// batches are decoded concurrently. Every peer must report the same.
func TestFirstFaultIsTold(t *testing.T) {
	var b bytes.Buffer
	write := func(m proto.Message) {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	write(&internalv1.SnapshotHeader{Format: snapshotFormat, Meta: &internalv1.Meta{}})
	for i := range 8 * batchRows {
		id := fmt.Sprintf("m-%05d", i)
		value, err := proto.Marshal(&holdfastv1.Machine{MachineId: id})
		if err != nil {
			t.Fatal(err)
		}
		if i > batchRows+5 {
			value = []byte{0xff}
		}
		write(&internalv1.SnapshotRecord{Table: internalv1.SnapshotRecord_MACHINES, Key: id, Value: value})
	}
	want := fmt.Sprintf("%q", fmt.Sprintf("m-%05d", batchRows+6))
	for range 20 {
		if _, _, err := readSnapshot(bytes.NewReader(b.Bytes()), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want the record %s named", err, want)
		}
	}
}

// FuzzRecord compares the hand-written encoding and decoding with the generated code.
func FuzzRecord(f *testing.F) {
	for _, r := range []*internalv1.SnapshotRecord{{}, {Table: 1, Key: "k", Value: []byte("v")},
		{Table: 300, Value: make([]byte, 300)}} {
		raw, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, raw := range []string{"\x08", "\x12\x02a", "\x12\x01\xff", "\x10\x01", "\x7a\x00",
		"\x08\x01\x08\x02\x12\x01a\x12\x01b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x88\x92\xca\x83\x30\x33", // a field number that no message may have
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, key, value, err := parseRecord(raw)
		var want internalv1.SnapshotRecord
		if werr := proto.Unmarshal(raw, &want); (err == nil) != (werr == nil) {
			t.Fatalf("%x: got %v, want %v", raw, err, werr)
		} else if err != nil {
			return
		}
		if kind != want.GetTable() || string(key) != want.GetKey() || !bytes.Equal(value, want.GetValue()) {
			t.Fatalf("%x: got %v, %q, %x, want %v", raw, kind, key, value, &want)
		}
		if kind < 0 {
			return
		}
		var b bytes.Buffer
		want.ProtoReflect().SetUnknown(nil)
		if _, err := protodelim.MarshalTo(&b, &want); err != nil {
			t.Fatal(err)
		}
		if got := appendRecord(nil, kind, string(key), value); !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("wrote %x, want %x", got, b.Bytes())
		}
	})
}
