package table_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

type machines = *table.Table[*holdfastv1.Machine]

// written returns a snapshot of rows, and checks that its parts are the same bytes.
func written(t rapid.TB, tab table.Rows) []byte {
	t.Helper()
	var whole, parts bytes.Buffer
	if _, err := table.Write(&whole, &internalv1.Meta{}, []table.Rows{tab}); err != nil {
		t.Fatal(err)
	}
	pack := func(raw []byte) []byte { // not the identity
		b := bytes.Clone(raw)
		for i := range b {
			b[i] ^= 0x20
		}
		return b
	}
	if err := table.WritePacked(&parts, &internalv1.Meta{}, []table.Rows{tab}, pack); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts.Bytes(), pack(whole.Bytes())) {
		t.Fatal("the packed snapshot is of another state")
	}
	return whole.Bytes()
}

// TestPagesDoNotShow checks that a snapshot has the bytes of a table's rows whatever happened
// before, and that it loads: rows are changed at random between snapshots, and older copies are
// written again.
func TestPagesDoNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, copies := table.New(schema.Machines()), []machines{}
		size := rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, 8<<10), rapid.IntRange(1, 200<<10))
		id := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("m-%03d", rapid.IntRange(0, 300).Draw(t, "id")) })
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			from, n := rapid.IntRange(0, 300).Draw(t, "from"), rapid.IntRange(0, 60).Draw(t, "rows in sequence")
			for i := range n {
				tab.Put(row(fmt.Sprintf("m-%03d", from+i), strings.Repeat("x", size.Draw(t, "size"))))
			}
			for _, m := range rapid.SliceOfN(id, 0, 3).Draw(t, "written") {
				tab.Put(row(m, strings.Repeat("y", size.Draw(t, "size"))))
			}
			for _, m := range rapid.SliceOfN(id, 0, 9).Draw(t, "deleted") {
				tab.Delete(m)
			}
			copies = append(copies, tab.Copy())
			tab := copies[rapid.IntRange(0, len(copies)-1).Draw(t, "copy")]
			want, got := table.Plain(&internalv1.Meta{}, tab), written(t, tab)
			if !bytes.Equal(got, want) {
				t.Fatalf("the snapshot of %d rows has %d bytes, want others, %d", tab.Len(), len(got), len(want))
			}
			loaded := table.New(schema.Machines())
			if err := load(bytes.NewReader(got), loaded); err != nil {
				t.Fatal(err)
			}
			if again := written(t, loaded); !bytes.Equal(again, want) {
				t.Fatal("the snapshot of a loaded table differs")
			}
		}
	})
}

// TestPagesAreKept checks that a snapshot keeps the pages that did not change, also those that
// were loaded.
func TestPagesAreKept(t *testing.T) {
	filled := table.New(schema.Machines())
	for i := range 5000 {
		filled.Put(row(fmt.Sprintf("m-%04d", i), strings.Repeat("x", 100)))
	}
	loaded := table.New(schema.Machines())
	if err := load(bytes.NewReader(written(t, filled)), loaded); err != nil {
		t.Fatal(err)
	}
	middle := func(label string) func(machines) {
		return func(tab machines) { tab.Put(row("m-2500", label)) }
	}
	for name, tab := range map[string]machines{"filled": filled, "loaded": loaded} {
		for _, tt := range []struct {
			name   string
			change func(machines)
			want   int // new pages, at most
		}{
			{"nothing", func(machines) {}, 0},
			{"a row", middle("y"), 1},
			{"the same row", middle("z"), 1},
			{"a large row", middle(strings.Repeat("y", 1<<20)), 3},
			{"a small row", middle("y"), 3},
			{"a row more", func(tab machines) { tab.Put(row("m-2500a")) }, 1},
			{"a row less", func(tab machines) { tab.Delete("m-2500a") }, 1},
			{"many less", func(tab machines) {
				for i := range 1000 {
					tab.Delete(fmt.Sprintf("m-%04d", 2000+i))
				}
			}, 2},
			{"nothing", func(machines) {}, 0},
		} {
			before := table.Pages(tab)
			if len(before) < 5 {
				t.Fatalf("%s: got %d pages, want at least 5", name, len(before))
			}
			tt.change(tab)
			fresh := 0
			for _, p := range table.Pages(tab) {
				if !slices.Contains(before, p) {
					fresh++
				}
			}
			if fresh > tt.want {
				t.Errorf("%s, %s changed: got %d new pages, want at most %d", name, tt.name, fresh, tt.want)
			}
		}
	}
}

// TestPagesAreMadeConcurrently writes two copies of a table while rows are read (-race).
func TestPagesAreMadeConcurrently(t *testing.T) {
	tab := table.New(schema.Machines())
	for round := range 3 {
		for i := range 400 {
			tab.Put(row(fmt.Sprintf("m-%03d", (round+1)*i), strings.Repeat("x", 500)))
		}
		want := table.Plain(&internalv1.Meta{}, tab)
		var all sync.WaitGroup
		for range 2 {
			view := tab.Copy()
			all.Go(func() {
				var got bytes.Buffer
				if _, err := table.Write(&got, &internalv1.Meta{}, []table.Rows{view}); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Error("a snapshot differs")
				}
			})
			all.Go(func() {
				for m := range view.Ascend("", "") {
					if m.GetLabels()["a"] == "" {
						t.Errorf("got %v", m)
					}
				}
			})
		}
		all.Wait()
	}
	if m, ok := tab.Get("m-399"); !ok || proto.Size(m) < 500 {
		t.Errorf("got %v, want the row", m)
	}
}
