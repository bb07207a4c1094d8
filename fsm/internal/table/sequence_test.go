package table_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

type (
	events = *table.Sequence[*holdfastv1.Event]
	// version is a copy of a sequence, and the types of its events by the model.
	version struct {
		s     events
		first uint64
		model []string
	}
)

// event returns the event with a number.
func event(n uint64, what string) *holdfastv1.Event { return &holdfastv1.Event{Cursor: n, Type: what} }

// check compares a version with its model.
func (v *version) check(t interface{ Fatalf(string, ...any) }) {
	var up, down []string
	for e := range v.s.After(0) {
		if e.GetCursor() != v.first+uint64(len(up)) {
			t.Fatalf("event %d is at position %d after %d", e.GetCursor(), len(up), v.first)
		}
		up = append(up, e.GetType())
	}
	for e := range v.s.Before(^uint64(0)) {
		down = append(down, e.GetType())
	}
	slices.Reverse(down)
	for _, got := range [][]string{up, down} {
		if !slices.Equal(got, v.model) {
			t.Fatalf("got %d rows %v, want %d rows %v", len(got), got, len(v.model), v.model)
		}
	}
	for _, i := range []int{0, len(v.model) / 2, len(v.model) - 1, len(v.model)} {
		if i < 0 {
			continue
		}
		e, ok := v.s.Get(v.first + uint64(i))
		if want := i < len(v.model); ok != want || ok && e.GetType() != v.model[i] {
			t.Fatalf("Get of row %d: got %v, %v, want %v", i, e, ok, want)
		}
	}
	if v.s.Len() != len(v.model) {
		t.Fatalf("got a length of %d, want %d", v.s.Len(), len(v.model))
	}
}

// TestSequenceIsAList compares sequences and their copies, which are all written, with slices.
func TestSequenceIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []*version{{s: table.NewSequence(schema.Events()), first: 1}}
		all[0].s.Guard()
		pick := func() *version { return all[rapid.IntRange(0, len(all)-1).Draw(t, "version")] }
		made := 0
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				v := pick()
				for range rapid.IntRange(1, 2*table.ChunkRows).Draw(t, "rows") {
					made++
					v.model = append(v.model, fmt.Sprint("e", made))
					v.s.Append(event(v.first+uint64(len(v.model)-1), v.model[len(v.model)-1]))
				}
			},
			"drop": func(t *rapid.T) {
				v := pick()
				n := rapid.IntRange(0, len(v.model)).Draw(t, "rows")
				v.first, v.model = v.first+uint64(n), slices.Clone(v.model[n:])
				v.s.DropBefore(v.first)
			},
			"copy": func(t *rapid.T) {
				if v := pick(); len(all) < 5 {
					all = append(all, &version{s: v.s.Copy(), first: v.first, model: slices.Clone(v.model)})
				}
			},
			"encode": func(t *rapid.T) { written(t, pick().s) },
			"restore": func(t *rapid.T) {
				v := pick()
				if len(v.model) == 0 {
					return
				}
				file := written(t, v.s)
				v.s = table.NewSequence(schema.Events())
				if err := loadEvents(file, v.s, true); err != nil {
					t.Fatalf("load: %v", err)
				}
				if again := written(t, v.s); !bytes.Equal(again, file) {
					t.Fatalf("the snapshot of a restored sequence differs:\n%x\n%x", again, file)
				}
			},
			"": func(t *rapid.T) {
				for _, v := range all {
					v.check(t)
				}
			},
		})
	})
}

func loadEvents(file []byte, into events, keep bool) error {
	in, _, err := table.Open(bytes.NewReader(file))
	if err != nil {
		return err
	}
	_, err = in.Load([]table.Rows{into}, keep)
	return err
}

// TestSequenceHasBytesOfATable checks that a snapshot of a sequence is that of a table with the
// same rows.
func TestSequenceHasBytesOfATable(t *testing.T) {
	s, tab := table.NewSequence(schema.Events()), table.New(schema.Events())
	for n := range uint64(3*table.ChunkRows + 5) {
		s.Append(event(n+7, "e"))
		tab.Put(event(n+7, "e"))
	}
	s.DropBefore(300)
	for n := range uint64(300) {
		tab.Delete(schema.Ordered(n))
	}
	var want bytes.Buffer
	if _, err := table.Write(&want, &internalv1.Meta{}, []table.Rows{tab}); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		if got := written(t, s); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s encoding: got %d bytes, want %d", when, len(got), want.Len())
		}
	}
}

// TestSequenceRefusesGaps checks the numbers of rows, both when a snapshot is read and when it
// is checked, and when a row is appended.
func TestSequenceRefusesGaps(t *testing.T) {
	for _, c := range []struct {
		numbers []uint64
		want    string // of the error
	}{
		{[]uint64{1, 2, 3}, ""}, {[]uint64{1 << 32, 1<<32 + 1}, ""},
		{[]uint64{1, 3}, `"0000000000000002" of events is missing`},
		{[]uint64{2, 1}, "comes after"}, {[]uint64{2, 2}, "comes after"},
	} {
		var keys []string
		var values [][]byte
		for _, n := range c.numbers {
			keys, values = append(keys, schema.Ordered(n)), append(values, table.Encode(event(n, "e")))
		}
		for _, keep := range []bool{true, false} {
			in := table.NewLoader(table.NewSequence(schema.Events()), keep, keys, values)
			err := in.Prepare()
			if err == nil {
				err = in.Add()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("rows %v, kept %v: got %v, want %q", c.numbers, keep, err, c.want)
			}
		}
	}
	s := table.NewSequence(schema.Events())
	s.Append(event(5, "first"))
	for _, n := range []uint64{4, 5, 7} {
		if !panics(func() { s.Append(event(n, "e")) }) {
			t.Errorf("row %d is appended after row 5", n)
		}
	}
}

// TestSequenceIsGuarded checks that a guarded sequence panics at the next use of a row whose
// message was changed, and only then.
func TestSequenceIsGuarded(t *testing.T) {
	for name, use := range map[string]func(s events){
		"dropped": func(s events) { s.DropBefore(table.ChunkRows + 1) },
		"copied":  func(s events) { s.Copy() },
		"encoded": func(s events) { written(t, s) },
	} {
		for _, changed := range []bool{false, true} {
			s := table.NewSequence(schema.Events())
			s.Guard()
			for n := range uint64(table.ChunkRows) {
				s.Append(event(n+1, "e"))
			}
			for e := range s.After(0) {
				if changed {
					e.Type = "x"
				}
			}
			if panicked := panics(func() { use(s) }); panicked != changed {
				t.Errorf("%s: got a panic: %v, want %v", name, panicked, changed)
			}
		}
	}
}

// TestSequenceFreezes checks that a copy is shared until the sequence changes, and that Rewrite
// changes no copy.
func TestSequenceFreezes(t *testing.T) {
	s := table.NewSequence(schema.Events())
	for n := range uint64(3) {
		s.Append(event(n+1, "old"))
	}
	v := s.Freeze(nil)
	if s.Freeze(v) != v {
		t.Error("a sequence that has not changed is copied again")
	}
	fork := v.Copy()
	fork.Append(event(4, "fork"))
	s.Append(event(4, "new"))
	if s.Freeze(v) == v || s.Freeze(fork) == fork {
		t.Error("a sequence that has changed is not copied")
	}
	s.Rewrite(func(e *holdfastv1.Event) { e.Cursor, e.Type = e.GetCursor()+100, "moved" })
	got := map[string][]uint64{}
	for name, list := range map[string]events{"view": v, "fork": fork, "rewritten": s} {
		for e := range list.After(0) {
			got[name+" "+e.GetType()] = append(got[name+" "+e.GetType()], e.GetCursor())
		}
	}
	want := map[string][]uint64{"view old": {1, 2, 3}, "fork old": {1, 2, 3}, "fork fork": {4},
		"rewritten moved": {101, 102, 103, 104}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestSequenceIsReadWhileWritten reads and encodes copies while rows are appended (-race).
func TestSequenceIsReadWhileWritten(t *testing.T) {
	s := table.NewSequence(schema.Events())
	var all sync.WaitGroup
	for n := range uint64(3 * table.ChunkRows) {
		s.Append(event(n+1, "e"))
		if n%100 != 99 {
			continue
		}
		v := s.Copy()
		all.Go(func() { written(t, v) })
		all.Go(func() {
			for e := range v.After(0) {
				if e.GetType() != "e" {
					t.Errorf("got %v", e)
				}
			}
		})
	}
	all.Wait()
}
