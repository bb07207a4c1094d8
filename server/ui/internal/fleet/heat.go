package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// Map is the heat map: a block for each rack with a cell for each machine.
type Map struct {
	Rows   []mapRow
	Single bool // each cell links to its machine
}

// Located reports whether a rack has a location.
func (m Map) Located() bool {
	return slices.ContainsFunc(m.Rows, func(r mapRow) bool { return r.Location != "" })
}

// mapRow contains the racks of a location.
type mapRow struct {
	Location string
	Blocks   []block
}

// block is the drawing of a rack.
type block struct {
	Name, Filter, Title string
	Width, Height, Side int
	Cells               []drawn // for few machines: one element each
	Paths               []shape // for many machines: one path per class
}

type drawn struct {
	ID, Class, Title string
	X, Y             int
}

type shape struct{ Class, D string }

// The limits of the drawing modes. Above manyMachines, cells are not separate links. Above
// tooMany, a cell is a whole rack.
const (
	manyMachines = 1500
	tooMany      = 25000
)

// Draw draws a fleet.
func Draw(f *Counts) Map {
	side := 14
	switch {
	case f.Total > 6000:
		side = 6
	case f.Total > manyMachines:
		side = 9
	}
	h := Map{Single: f.Total <= manyMachines}
	racks := f.Racks
	if f.Total > tooMany {
		racks, side = mergeRacks(racks), 9
	}
	for _, g := range racks {
		if n := len(h.Rows); n == 0 || h.Rows[n-1].Location != g.Location {
			h.Rows = append(h.Rows, mapRow{Location: g.Location})
		}
		row := &h.Rows[len(h.Rows)-1]
		row.Blocks = append(row.Blocks, drawBlock(g, side, h.Single))
	}
	return h
}

// mergeRacks merges the racks of each location into one group, with a cell for each rack. A
// cell shows the most frequent state of the rack, or trouble if any machine has it.
func mergeRacks(racks []Group) []Group {
	var all []Group
	for _, r := range racks {
		if n := len(all); n == 0 || all[n-1].Location != r.Location {
			all = append(all, Group{Location: r.Location, Name: r.Location, Filter: filter.Equals("location", r.Location)})
		}
		g := &all[len(all)-1]
		g.Total, g.Troubled = g.Total+r.Total, g.Troubled+r.Troubled
		most := holdfastv1.EffectiveState_Value(0)
		for s, n := range r.States {
			if g.States[s] += n; n > r.States[most] {
				most = holdfastv1.EffectiveState_Value(s)
			}
		}
		g.cells = append(g.cells, cell{id: r.Name, state: most, troubled: r.Troubled > 0})
	}
	return all
}

// drawBlock arranges the cells of a rack in rows.
func drawBlock(g Group, side int, single bool) block {
	columns := 4 // taller than wide, like a rack
	for columns*min(columns*4, 64) < len(g.cells) {
		columns += 2
	}
	rows := (len(g.cells) + columns - 1) / columns
	b := block{
		Name:   g.Name,
		Filter: g.Filter,
		Title:  g.title(),
		Width:  columns * side,
		Height: max(rows, 1) * side,
		Side:   side - gap(side),
	}
	paths := map[string]*strings.Builder{}
	for i, x := range g.cells {
		class, left, top := x.class(), i%columns*side, i/columns*side
		if single {
			title := x.id + ": " + display.Label(x.state) + x.trouble()
			b.Cells = append(b.Cells, drawn{ID: x.id, Class: class, X: left, Y: top, Title: title})
			continue
		}
		if paths[class] == nil {
			paths[class] = &strings.Builder{}
		}
		fmt.Fprintf(paths[class], "M%d %dh%dv%dh-%dz", left, top, b.Side, b.Side, b.Side)
	}
	for _, class := range cellClasses() {
		if p := paths[class]; p != nil {
			b.Paths = append(b.Paths, shape{class, p.String()})
		}
	}
	return b
}

func gap(side int) int {
	if side < 9 {
		return 1
	}
	return 2
}

func (x cell) class() string {
	if x.troubled {
		return "c-bad"
	}
	return "c-" + strconv.Itoa(int(x.state))
}

func (x cell) trouble() string {
	if x.troubled {
		return ", needs attention"
	}
	return ""
}

// cellClasses returns the CSS classes of cells in a fixed order.
func cellClasses() []string {
	var all []string
	for s := range NumStates {
		all = append(all, "c-"+strconv.Itoa(s))
	}
	return append(all, "c-bad")
}

// title describes a group: "r7: 40 machines, 38 in service, 2 in maintenance, 1 in need of
// attention".
func (g *Group) title() string {
	text := cmp.Or(g.Name, "no rack") + ": " + describe.Count(g.Total) + " machines"
	if g.Total == 1 {
		text = cmp.Or(g.Name, "no rack") + ": 1 machine"
	}
	for s, n := range g.States {
		if n > 0 {
			text += fmt.Sprintf(", %s %s", describe.Count(n), display.Label(holdfastv1.EffectiveState_Value(s)))
		}
	}
	if g.Troubled > 0 {
		text += fmt.Sprintf(", %s in need of attention", describe.Count(g.Troubled))
	}
	return text
}

// Slice is a part of a bar, in thousandths of its width.
type Slice struct {
	Class, Title string
	X, Width     int
}

// Bar returns the parts of a bar that shows the states of a group. Machines that need attention are
// one part, whatever their state.
func Bar(g *Group) []Slice {
	var all []Slice
	before := 0
	add := func(n int, class, label string) {
		if n == 0 {
			return
		}
		x, end := before*1000/g.Total, (before+n)*1000/g.Total
		all = append(all, Slice{Class: class, Title: describe.Count(n) + " " + label, X: x, Width: end - x})
		before += n
	}
	for s, n := range g.States {
		state := holdfastv1.EffectiveState_Value(s)
		add(n-g.Affected[s], cell{state: state}.class(), display.Label(state))
	}
	add(g.Troubled, cell{troubled: true}.class(), "in need of attention")
	return all
}
