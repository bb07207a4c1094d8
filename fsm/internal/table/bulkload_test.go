package table_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// load reads a snapshot of machines into an empty table.
func load(r io.Reader, into *table.Table[*holdfastv1.Machine]) error {
	in, _, err := table.Open(r)
	if err != nil {
		return err
	}
	_, err = in.Load([]table.Rows{into.Rowset}, true)
	return err
}

// TestLoadedTableEqualsWrittenOne checks that a table loaded from a snapshot has the same trees as
// one written row by row, also after more writes.
func TestLoadedTableEqualsWrittenOne(t *testing.T) {
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
	a, b := table.New(schema.Machines()), table.New(schema.Machines())
	for i := range 5*table.BatchRows + 7 {
		a.Put(machine(i))
	}
	var file bytes.Buffer
	if _, err := table.Write(&file, &internalv1.Meta{}, []table.Rows{a.Rowset}); err != nil {
		t.Fatal(err)
	}
	if err := load(&file, b); err != nil {
		t.Fatal(err)
	}
	for what := range []int{0, 1} {
		if diff := cmp.Diff(table.Trees(a), table.Trees(b)); diff != "" {
			t.Fatalf("round %d (-put +filled):\n%s", what, diff)
		}
		for i := range 2000 {
			if m := machine(i); rng.IntN(4) == 0 {
				a.Delete(m.GetMachineId())
				b.Delete(m.GetMachineId())
			} else {
				a.Put(m)
				b.Put(m)
			}
		}
	}
}

// TestLoaderRefusesDisorder checks that rows out of order and duplicate rows are refused,
// even with a valid checksum.
func TestLoaderRefusesDisorder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}, {"a", "c", "b"}} {
		var values [][]byte
		for _, k := range keys {
			value, err := proto.Marshal(&holdfastv1.Machine{MachineId: k})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		for _, keep := range []bool{true, false} {
			in := table.NewLoader(table.New(schema.Machines()), keep, keys, values)
			if err := in.Prepare(); err != nil {
				t.Fatal(err)
			}
			if err := in.Add(); err == nil || !strings.Contains(err.Error(), "comes after") {
				t.Errorf("rows %v, kept %v: got %v, want that one comes after another", keys, keep, err)
			}
		}
	}
}

// TestFirstErrorIsReported checks that the first of two invalid rows is reported, although
// batches are decoded concurrently. Every peer must report the same.
func TestFirstErrorIsReported(t *testing.T) {
	var b bytes.Buffer
	write := func(m proto.Message) {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	write(&internalv1.SnapshotHeader{Format: table.SnapshotFormat, Meta: &internalv1.Meta{}})
	for i := range 8 * table.BatchRows {
		id := fmt.Sprintf("m-%05d", i)
		value, err := proto.Marshal(&holdfastv1.Machine{MachineId: id})
		if err != nil {
			t.Fatal(err)
		}
		if i > table.BatchRows+5 {
			value = []byte{0xff}
		}
		write(&internalv1.SnapshotRecord{Table: internalv1.SnapshotRecord_MACHINES, Key: id, Value: value})
	}
	want := fmt.Sprintf("%q", fmt.Sprintf("m-%05d", table.BatchRows+6))
	for range 20 {
		err := load(bytes.NewReader(b.Bytes()), table.New(schema.Machines()))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want the record %s named", err, want)
		}
	}
}

// TestIndexKeysDoNotKeepPages checks that the index keys of loaded rows are no parts of their
// bytes: an index outlives them, and would keep a whole page in memory for each key.
func TestIndexKeysDoNotKeepPages(t *testing.T) {
	var file bytes.Buffer
	a, b := table.New(schema.Machines()), table.New(schema.Machines())
	for i := range 3 {
		a.Put(&holdfastv1.Machine{MachineId: fmt.Sprint("m-", i), Agent: &holdfastv1.AgentRecord{TokenId: "token"}})
	}
	if _, err := table.Write(&file, &internalv1.Meta{}, []table.Rows{a.Rowset}); err != nil {
		t.Fatal(err)
	}
	if err := load(&file, b); err != nil {
		t.Fatal(err)
	}
	if n := table.IndexLen(b, schema.MachinesEnrolled); n != 3 {
		t.Fatalf("got %d index keys, want 3", n)
	}
	if keys := table.KeysInPages(b); len(keys) > 0 {
		t.Errorf("index keys %q are parts of a page", keys)
	}
}
