package table_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// labelled is a table of machines with an index by their labels' values.
func labelled() *table.Table[*holdfastv1.Machine] {
	s := schema.Machines()
	s.SameKeys = nil
	s.Indexes, s.Index = 1, func(m *holdfastv1.Machine, add func(int, string)) {
		for _, k := range []string{"a", "b"} {
			if v := m.GetLabels()[k]; v != "" {
				add(0, v)
			}
		}
	}
	return table.New(s)
}

func row(id string, labels ...string) *holdfastv1.Machine {
	m := &holdfastv1.Machine{MachineId: id, Labels: map[string]string{}}
	for i, l := range labels {
		m.Labels[string(rune('a'+i))] = l
	}
	return m
}

func TestTableScans(t *testing.T) {
	tab := labelled()
	for _, m := range []*holdfastv1.Machine{row("b", "x/2"), row("a", "x/1"), row("c", "y/1", "x/3"), row("ab", "x/1"),
		row("", "z")} {
		tab.Put(m)
	}
	ids := func(seq func(func(*holdfastv1.Machine) bool)) []string {
		var got []string
		for m := range seq {
			got = append(got, m.GetMachineId())
		}
		return got
	}
	pairs := func(seq func(func(string, *holdfastv1.Machine) bool)) []string {
		var got []string
		for k, m := range seq {
			got = append(got, k+"="+m.GetMachineId())
		}
		return got
	}
	for _, tt := range []struct {
		name      string
		want, got []string
	}{
		{"all but the empty key", []string{"a", "ab", "b", "c"}, ids(tab.Ascend("", ""))},
		{"after a key", []string{"b", "c"}, ids(tab.Ascend("", "ab"))},
		{"after a key that is not there", []string{"ab", "b", "c"}, ids(tab.Ascend("", "aa"))},
		{"with a prefix", []string{"a", "ab"}, ids(tab.Ascend("a", ""))},
		{"backwards", []string{"b", "ab", "a", ""}, ids(tab.Descend("", "c"))},
		{"backwards with a prefix", []string{"ab", "a"}, ids(tab.Descend("a", "b"))},
		{"backwards from elsewhere", nil, ids(tab.Descend("a", "c"))},
		{"index", []string{"x/1=a", "x/1=ab", "x/2=b", "x/3=c"}, pairs(tab.Scan(0, "x/", ""))},
		{"index after a key", []string{"x/2=b", "x/3=c"}, pairs(tab.Scan(0, "x/", "x/1"))},
		{"index after another prefix", nil, pairs(tab.Scan(0, "x/", "y/0"))},
		{"index backwards", []string{"x/3=c", "x/2=b", "x/1=ab", "x/1=a"}, pairs(tab.ScanBack(0, "x/", ""))},
		{"index backwards from a key", []string{"x/1=ab", "x/1=a"}, pairs(tab.ScanBack(0, "x/", "x/2"))},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if m, ok := tab.Lookup(0, "x/"); ok || m != nil {
		t.Errorf("lookup of a prefix: got %v, %v, want nothing", m, ok)
	}
	if m, ok := tab.Lookup(0, "x/2"); !ok || m.GetMachineId() != "b" {
		t.Errorf("lookup: got %v, %v, want b", m, ok)
	}
	for range tab.Ascend("", "") { // a caller may stop
		break
	}
	for range tab.Scan(0, "", "") {
		break
	}
}

func TestTableIndexesFollow(t *testing.T) {
	tab := labelled()
	tab.Put(row("m", "x", "y"))
	tab.Put(row("n", "x"))
	tab.Put(row("m", "y", "z"))
	for key, want := range map[string]string{"x": "n", "y": "m", "z": "m"} {
		if m, ok := tab.Lookup(0, key); !ok || m.GetMachineId() != want {
			t.Errorf("%s: got %v, want %s", key, m, want)
		}
	}
	frozen := tab.Copy()
	tab.Delete("m")
	tab.Delete("never there")
	if table.IndexLen(tab, 0) != 1 || tab.Len() != 1 || tab.Has("m") {
		t.Errorf("after delete: %d rows, %d index entries, want 1 and 1", tab.Len(), table.IndexLen(tab, 0))
	}
	if table.IndexLen(frozen, 0) != 3 || frozen.Len() != 2 || !frozen.Has("m") {
		t.Errorf("frozen copy: %d rows, %d index entries, want 2 and 3", frozen.Len(), table.IndexLen(frozen, 0))
	}
}

// TestTableMarks checks that a change replaces the mark of a table, and that an insertion or
// deletion replaces its roll. An earlier copy keeps its own.
func TestTableMarks(t *testing.T) {
	tab := labelled()
	for _, step := range []struct {
		name        string
		do          func()
		mark, moved bool
	}{
		{"new row", func() { tab.Put(row("m", "x")) }, true, true},
		{"change", func() { tab.Put(row("m", "y")) }, true, false},
		{"copy", func() { tab.Copy() }, false, false},
		{"another row", func() { tab.Put(row("n")) }, true, true},
		{"delete", func() { tab.Delete("m") }, true, true},
		{"delete of nothing", func() { tab.Delete("m") }, false, false},
	} {
		before := tab.Copy()
		step.do()
		if mark, moved := tab.Mark() != before.Mark(), tab.Roll() != before.Roll(); mark != step.mark || moved != step.moved {
			t.Errorf("%s: another mark %v, another roll %v; want %v and %v", step.name, mark, moved, step.mark, step.moved)
		}
	}
}

func TestTableCounts(t *testing.T) {
	tab := labelled()
	const n = 1000
	for i := range n {
		tab.Put(row(fmt.Sprintf("m%04d", i), fmt.Sprintf("k%04d", i*2)))
	}
	for _, below := range []int{0, 1, 2, 999, 1000, 1001, 1998, 1999, 5000} {
		if got, want := tab.Count(0, fmt.Sprintf("k%04d", below)), min(n, (below+1)/2); got != want {
			t.Errorf("count below %d: got %d, want %d", below, got, want)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tab := labelled()
			for i := range n {
				tab.Put(row(fmt.Sprintf("m%06d", i), fmt.Sprintf("k%06d", i)))
			}
			for b.Loop() {
				tab.Count(0, "l")
			}
		})
	}
}

func TestIsLast(t *testing.T) {
	tab := labelled()
	for _, m := range []*holdfastv1.Machine{row("a", "2"), row("b", "3"), row("c", "1")} {
		tab.Put(m)
	}
	for id, want := range map[string]bool{"a": false, "b": true, "c": false, "none": false} {
		if n, last := tab.IsLast(0, id); n != 3 || last != want {
			t.Errorf("%s: got %d, %v, want 3, %v", id, n, last, want)
		}
	}
}
