package fleet

import (
	"fmt"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// fleetOf returns n machines in racks of 40 in two locations; one in a hundred needs
// attention.
func fleetOf(n int) *Counts {
	f := &Counts{}
	for i := range n {
		if i%40 == 0 {
			f.Racks = append(f.Racks, Group{Location: fmt.Sprintf("dc%d", 1+2*i/n), Name: fmt.Sprintf("r%d", i/40+1)})
		}
		g := &f.Racks[len(f.Racks)-1]
		x := cell{id: fmt.Sprintf("m-%d", i), state: holdfastv1.EffectiveState_IN_SERVICE, troubled: i%100 == 0}
		g.cells, g.Total, f.Total = append(g.cells, x), g.Total+1, f.Total+1
		g.States[x.state]++
		if x.troubled {
			g.Troubled++
		}
	}
	return f
}

// TestDraw: every machine has a cell, and the drawing stays small.
func TestDraw(t *testing.T) {
	for _, tt := range []struct{ machines, blocks, cells int }{{0, 0, 0}, {100, 3, 100}, {10_000, 250, 10_000},
		{100_000, 2, 2500}} {
		h := Draw(fleetOf(tt.machines))
		blocks, cells, bytes := 0, 0, 0
		for _, r := range h.Rows {
			for _, b := range r.Blocks {
				blocks++
				cells += len(b.Cells)
				for _, p := range b.Paths {
					cells += strings.Count(p.D, "M")
					bytes += len(p.D)
				}
				if b.Width > 600 || b.Height > 600 {
					t.Errorf("%d machines: got rack %s of %d by %d", tt.machines, b.Name, b.Width, b.Height)
				}
			}
		}
		if blocks != tt.blocks || cells != tt.cells || bytes > 250_000 {
			t.Errorf("%d machines: got %d blocks with %d cells in %d bytes, want %d with %d", tt.machines, blocks, cells, bytes,
				tt.blocks, tt.cells)
		}
	}
}
