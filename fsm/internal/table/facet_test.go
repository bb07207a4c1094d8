package table_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// found returns the machines in a set of facets.
func found(t *table.Table[*holdfastv1.Machine], s *table.Facets, after string) []string {
	var got []string
	for m := range t.Find(table.Query{Facets: s}, after) {
		got = append(got, m.GetMachineId())
	}
	return got
}

func drawMachine(t *rapid.T) *holdfastv1.Machine {
	text := rapid.SampledFrom([]string{"", "a", "b"})
	m := &holdfastv1.Machine{
		MachineId: rapid.SampledFrom([]string{"m-1", "m-2", "m-3", "m-4", "m-5"}).Draw(t, "id"),
		Labels:    rapid.MapOf(rapid.SampledFrom([]string{"x", "y", "z"}), text).Draw(t, "labels"),
		Spec:      &holdfastv1.MachineSpec{Rack: text.Draw(t, "rack"), Pool: text.Draw(t, "pool")},
		Status: &holdfastv1.MachineStatus{
			Phase:     holdfastv1.MachineStatus_Phase(rapid.IntRange(0, 2).Draw(t, "phase")),
			NodeState: holdfastv1.Node_State(rapid.IntRange(0, 1).Draw(t, "node")),
		},
	}
	for _, kind := range []string{"Reachable", "Degraded", "Drained"} {
		if rapid.Bool().Draw(t, kind+" there") {
			m.Status.Conditions = append(m.Status.Conditions, &holdfastv1.Condition{Type: kind,
				Status: rapid.Bool().Draw(t, kind)})
		}
	}
	return m
}

// drawFacets draws a set, with a function that reports whether a machine is in it.
func drawFacets(t *rapid.T, depth int) (*table.Facets, func(*holdfastv1.Machine) bool) {
	kind := rapid.IntRange(0, 2).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	if kind == 0 {
		one := &table.Facets{Path: rapid.SampledFrom([]string{"labels.x", "labels.y", "spec.rack", "spec.pool",
			"status.phase",
			"status.conditions.Reachable",
			"status.conditions.Degraded"}).Draw(t, "path"), Value: rapid.SampledFrom([]string{"", "a", "READY", "true",
			"false"}).Draw(t, "value")}
		return one, func(m *holdfastv1.Machine) bool {
			has := false
			schema.MachineFacets(m, func(prefix, name, value string) {
				has = has || prefix+name == one.Path && value == one.Value
			})
			return has
		}
	}
	var sets []table.Facets
	var tests []func(*holdfastv1.Machine) bool
	for range rapid.IntRange(2-kind%2, 3).Draw(t, "sets") {
		s, test := drawFacets(t, depth-1)
		sets, tests = append(sets, *s), append(tests, test)
	}
	if kind == 1 {
		return &table.Facets{All: sets}, func(m *holdfastv1.Machine) bool {
			return !slices.ContainsFunc(tests, func(test func(*holdfastv1.Machine) bool) bool { return !test(m) })
		}
	}
	return &table.Facets{Any: sets}, func(m *holdfastv1.Machine) bool {
		return slices.ContainsFunc(tests, func(test func(*holdfastv1.Machine) bool) bool { return test(m) })
	}
}

// A search by facets finds the present rows after any changes, and a frozen copy finds its
// own.
func TestFacetsFollowTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := table.New(schema.Machines())
		type copied struct {
			tab  *table.Table[*holdfastv1.Machine]
			rows map[string]*holdfastv1.Machine
		}
		now := copied{tab, map[string]*holdfastv1.Machine{}}
		copies := []copied{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			m := drawMachine(t)
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				tab.Delete(m.GetMachineId())
				delete(now.rows, m.GetMachineId())
			case 1:
				rows := map[string]*holdfastv1.Machine{}
				maps.Copy(rows, now.rows)
				copies = append(copies, copied{tab.Copy(), rows})
			default:
				tab.Put(m)
				now.rows[m.GetMachineId()] = m
			}
		}
		set, has := drawFacets(t, 2)
		after := rapid.SampledFrom([]string{"", "m-2", "m-20"}).Draw(t, "after")
		for _, c := range append(copies, now) {
			var want []string
			for _, id := range []string{"m-1", "m-2", "m-3", "m-4", "m-5"} {
				if m := c.rows[id]; m != nil && has(m) && id > after {
					want = append(want, id)
				}
			}
			if diff := cmp.Diff(want, found(c.tab, set, after)); diff != "" {
				t.Fatalf("%v after %q (-want +got):\n%s", set, after, diff)
			}
			members := 0
			for _, m := range c.rows {
				schema.MachineFacets(m, func(_, _, _ string) { members++ })
			}
			if got := table.Memberships(c.tab); got != members {
				t.Fatalf("%d memberships are kept, want %d", got, members)
			}
		}
	})
}

func TestFacetsAreHeldOnce(t *testing.T) {
	tab := table.New(schema.Machines())
	for i := range 3 {
		tab.Put(&holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i), Spec: &holdfastv1.MachineSpec{Rack: "r7"}})
	}
	one := table.FacetsAt(tab, "m-0")
	two := table.FacetsAt(tab, "m-2")
	if one[0] != two[0] {
		t.Error("two machines of one rack hold its name twice")
	}
	tab.Put(&holdfastv1.Machine{MachineId: "m-0", Spec: &holdfastv1.MachineSpec{Rack: "r7", Serial: "new"}})
	again := table.FacetsAt(tab, "m-0")
	if &again[0] != &one[0] {
		t.Error("a change of something else makes the facets anew")
	}
}

func TestFindByText(t *testing.T) {
	tab := table.New(schema.Machines())
	for _, serial := range []string{"S-100", "S-200", "X-100"} {
		tab.Put(&holdfastv1.Machine{MachineId: "m-" + serial, Spec: &holdfastv1.MachineSpec{Serial: serial, Rack: "r7"}})
	}
	for _, tt := range []struct {
		q    table.Query
		want int
	}{
		{table.Query{}, 3},
		{table.Query{Texts: []string{"S-"}}, 2},
		{table.Query{Texts: []string{"100", "X"}}, 1},
		{table.Query{Texts: []string{"none"}}, 0},
		{table.Query{Texts: []string{"S-"}, Facets: &table.Facets{Path: "spec.rack", Value: "r7"}}, 2},
		{table.Query{Texts: []string{"S-"}, Facets: &table.Facets{Path: "spec.rack", Value: "r8"}}, 0},
	} {
		got := 0
		for range tab.Find(tt.q, "") {
			got++
		}
		if got != tt.want {
			t.Errorf("%+v: got %d machines, want %d", tt.q, got, tt.want)
		}
	}
}

// TestFacetsAreShared checks that rows share the text of a facet, also with more facets than a
// table remembers.
func TestFacetsAreShared(t *testing.T) {
	tab := table.New(schema.Machines())
	const facets = 1100
	for i := range 2 * facets {
		tab.Put(row(fmt.Sprintf("m-%04d", i), fmt.Sprint(i%facets)))
	}
	for i := range facets {
		a, b := table.FacetsAt(tab, fmt.Sprintf("m-%04d", i)), table.FacetsAt(tab, fmt.Sprintf("m-%04d", i+facets))
		if len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Fatalf("label %d: got %v and %v, want one facet for both rows", i, a, b)
		}
	}
}
