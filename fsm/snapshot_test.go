package fsm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// populated returns a small state with rows in every table.
func populated(t *testing.T) *fsmtest.Peer {
	t.Helper()
	p := &fsmtest.Peer{FSM: fsm.New(), Now: fsmtest.NewPeer().Now}
	p.Lead(1)
	do(t, p, &internalv1.InitCluster{ClusterId: "c-1"})
	do(t, p, &internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p1", Instance: "i1", MaxFeatureLevel: 1,
		Version: "v1"}})
	plan(t, p, "plan/x", "reboot", "ssh")
	register(t, p, "m-1", inService)
	register(t, p, "m-2", ready)
	start(t, p, "m-1", "request-1", "REBOOT", "plan/x")
	begin(t, p, "run-request-1")
	do(t, p, &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{logAppend("run-request-1", 0, "off\n", "on\n")}})
	end(t, p, "run-request-1", failed)
	start(t, p, "m-2", "request-2", "", "plan/x")
	begin(t, p, "run-request-2")
	return p
}

func TestSnapshotRestoresTheSameBytes(t *testing.T) {
	p := populated(t)
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo: got %d, %v, want %d and no error", n, err, b.Len())
	}
	if s.Index() != p.Index {
		t.Errorf("snapshot index: got %d, want %d", s.Index(), p.Index)
	}
	q := &fsmtest.Peer{FSM: fsm.New(), Index: p.Index, Term: p.Term, Now: p.Now}
	if err := q.Restore(bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if got := snapshotBytes(t, q.FSM); !bytes.Equal(got, b.Bytes()) {
		t.Errorf("the snapshot of a restored state differs:\n%s", dump(t, p).Diff(dump(t, q)))
	}
	if q.Applied() != p.Index || q.View().Index() != p.Index {
		t.Errorf("restored: applied %d, view at %d, want %d", q.Applied(), q.View().Index(), p.Index)
	}

	// Both continue alike, so the indexes were restored too.
	for _, peer := range []*fsmtest.Peer{p, q} {
		end(t, peer, "run-request-2", succeeded)
		refused(t, peer, &internalv1.RegisterMachine{GeneratedId: true, Machine: &holdfastv1.Machine{MachineId: "m-1"}},
			fsm.Aborted, fsm.ReasonIDTaken)
		if got := start(t, peer, "m-2", "request-2", "", "plan/x"); got.GetRunId() != "run-request-2" {
			t.Errorf("replay: got run %s, want run-request-2", got.GetRunId())
		}
	}
	if got, want := snapshotBytes(t, q.FSM), snapshotBytes(t, p.FSM); !bytes.Equal(got, want) {
		t.Errorf("after the same commands the restored state differs:\n%s", dump(t, p).Diff(dump(t, q)))
	}
}

func TestRestoreWakesWaiters(t *testing.T) {
	p := populated(t)
	f := fsm.New()
	changed := f.Changed()
	done := make(chan error, 1)
	go func() { done <- f.WaitApplied(context.Background(), p.Index) }()
	if err := f.Restore(bytes.NewReader(snapshotBytes(t, p.FSM))); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("WaitApplied: got %v, want nil", err)
	}
	select {
	case <-changed:
	default:
		t.Error("Changed: not closed by Restore")
	}
}

// boundaries returns the offsets at which the messages of a stream begin, and its end.
func boundaries(t *testing.T, stream []byte) []int {
	t.Helper()
	var at []int
	for i := 0; i < len(stream); {
		at = append(at, i)
		n, w := binary.Uvarint(stream[i:])
		if w <= 0 {
			t.Fatalf("no length at %d", i)
		}
		i += w + int(n)
	}
	return append(at, len(stream))
}

// damaged restores a broken stream, which must fail and leave the state unchanged.
func damaged(t *testing.T, p *fsmtest.Peer, what string, stream []byte) {
	t.Helper()
	before := p.View()
	if err := p.Restore(bytes.NewReader(stream)); err == nil {
		t.Errorf("%s: restored without an error", what)
	}
	if p.View() != before {
		t.Fatalf("%s: the state has changed", what)
	}
}

func TestRestoreRefusesTruncation(t *testing.T) {
	p := populated(t)
	whole := snapshotBytes(t, p.FSM)
	at := boundaries(t, whole)
	if len(at) < 20 {
		t.Fatalf("the snapshot has %d messages, want some of every table", len(at)-1)
	}
	for _, b := range at {
		for n := max(0, b-1); n <= min(b+1, len(whole)-1); n++ {
			damaged(t, p, fmt.Sprintf("cut after %d of %d bytes", n, len(whole)), whole[:n])
		}
	}
	damaged(t, p, "a byte more", append(bytes.Clone(whole), 0))
	damaged(t, p, "twice", bytes.Repeat(whole, 2))
	for i := 1; i+1 < len(at); i++ {
		damaged(t, p, fmt.Sprintf("without message %d", i), append(bytes.Clone(whole[:at[i]]), whole[at[i+1]:]...))
	}
	if got := snapshotBytes(t, p.FSM); !bytes.Equal(got, whole) {
		t.Error("the state has changed")
	}
}

func TestRestoreRefusesFlippedBits(t *testing.T) {
	p := populated(t)
	whole := snapshotBytes(t, p.FSM)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		damaged(t, p, fmt.Sprintf("bit %d of byte %d of %d flipped", i%8, i, len(whole)), b)
	}
	// A row that moved to another table whose key is in the same field.
	at := boundaries(t, whole)
	for i := 1; i+3 < len(at); i++ {
		for table := byte(1); table <= 7; table++ {
			b := bytes.Clone(whole)
			_, w := binary.Uvarint(b[at[i]:])
			if pos := at[i] + w + 1; b[pos] != table {
				b[pos] = table
				damaged(t, p, fmt.Sprintf("message %d moved to table %d", i, table), b)
			}
		}
	}
}

// stream writes a snapshot with a valid checksum, whatever its contents.
func stream(t *testing.T, msgs ...proto.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range append(msgs, &internalv1.SnapshotRecord{}) {
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	trailer := &internalv1.SnapshotTrailer{Records: uint64(len(msgs) - 1), Checksum: xxhash.Sum64(b.Bytes())}
	if _, err := protodelim.MarshalTo(&b, trailer); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRestoreRefusesUnknownRecords(t *testing.T) {
	header := func() *internalv1.SnapshotHeader {
		return &internalv1.SnapshotHeader{Format: 1, Meta: &internalv1.Meta{AppliedIndex: 7, FeatureLevel: 1}}
	}
	future := func(h *internalv1.SnapshotHeader, f func(*internalv1.SnapshotHeader)) *internalv1.SnapshotHeader {
		f(h)
		return h
	}
	record := func(table internalv1.SnapshotRecord_Table, key string, m proto.Message) *internalv1.SnapshotRecord {
		v, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return &internalv1.SnapshotRecord{Table: table, Key: key, Value: v}
	}
	plans := internalv1.SnapshotRecord_PLANS
	tests := []struct {
		name string
		in   []byte
		want string // part of the error; "" if it restores
	}{
		{"nothing but a header", stream(t, header()), ""},
		{"a row", stream(t, header(), record(plans, "p", planOf("p", "ssh"))), ""},
		{"empty", nil, "ends too early"},
		{"another format", stream(t, future(header(), func(h *internalv1.SnapshotHeader) { h.Format = 2 })), "format 2"},
		{"a newer level", stream(t,
			future(header(), func(h *internalv1.SnapshotHeader) { h.Meta.FeatureLevel = fsm.FeatureLevel + 1 })), "upgrade it"},
		{"a field of the header",
			stream(t, future(header(), func(h *internalv1.SnapshotHeader) { h.ProtoReflect().SetUnknown(unknownField) })),
			"newer build"},
		{"a field of its state", stream(t,
			future(header(), func(h *internalv1.SnapshotHeader) { h.Meta.ProtoReflect().SetUnknown(unknownField) })),
			"newer build"},
		{"no state", stream(t, &internalv1.SnapshotHeader{Format: 1}), "no state"},
		{"a table", stream(t, header(), record(99, "p", planOf("p", "ssh"))), "table 99"},
		{"a row under another key", stream(t, header(), record(plans, "q", planOf("p", "ssh"))), `under "q", want "p"`},
		{"a row that does not decode",
			stream(t, header(), &internalv1.SnapshotRecord{Table: plans, Key: "p", Value: []byte{0xff}}), "decode record"},
		{"a row of another type",
			stream(t, header(), record(plans, "m-1", &holdfastv1.Run{RunId: "m-1", Steps: []*holdfastv1.StepStatus{{}},
				Phase: 1})), ""},
		{"a huge message", binary.AppendUvarint(nil, 1<<40), "size"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := fsm.New().Restore(bytes.NewReader(tt.in))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestHaltedFSMNeitherSnapshotsNorRestores(t *testing.T) {
	p := populated(t)
	whole := snapshotBytes(t, p.FSM)
	p.Propose(&internalv1.Command{FeatureLevel: fsm.FeatureLevel + 1, Op: fsmtest.Command(&internalv1.NoOp{}).GetOp()})
	if s, err := p.Snapshot(); err == nil || s != nil || !errors.Is(err, p.HaltError()) {
		t.Errorf("Snapshot: got %v, %v, want the halt error %v", s, err, p.HaltError())
	}
	before := p.View()
	if err := p.Restore(bytes.NewReader(whole)); !errors.Is(err, p.HaltError()) {
		t.Errorf("Restore: got %v, want the halt error %v", err, p.HaltError())
	}
	if p.View() != before {
		t.Error("Restore moved the state of a halted FSM")
	}
}

// TestSnapshotIsFrozen writes a snapshot while the FSM continues.
func TestSnapshotIsFrozen(t *testing.T) {
	p := populated(t)
	want := snapshotBytes(t, p.FSM)
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	end(t, p, "run-request-2", succeeded)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	register(t, p, "m-3", ready)
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("a snapshot changed after it was taken")
	}
}

type failingWriter struct{ room int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, io.ErrShortWrite
	}
	w.room -= len(p)
	return len(p), nil
}

func TestSnapshotReportsAFullDisk(t *testing.T) {
	p := populated(t)
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.WriteTo(&failingWriter{room: 100}); !errors.Is(err, io.ErrShortWrite) || n != 100 {
		t.Errorf("WriteTo: got %d, %v, want 100 and %v", n, err, io.ErrShortWrite)
	}
}

// TestSnapshotIsCheap takes snapshots of a small and of a large state. The cost must not
// grow.
func TestSnapshotIsCheap(t *testing.T) {
	allocs := func(machines int) float64 {
		p := fsmtest.NewPeer()
		for i := range machines {
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i)}})
		}
		return testing.AllocsPerRun(20, func() {
			p.Index++
			p.Observe(p.Index, p.Term) // or the previous view would be reused
			if _, err := p.Snapshot(); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := allocs(10), allocs(3000)
	if large > small+2 {
		t.Errorf("a snapshot of 3000 machines takes %v allocations, one of 10 takes %v", large, small)
	}
}
