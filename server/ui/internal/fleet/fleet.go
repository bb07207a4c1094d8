package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// Counts are the counts of all machines that a user may see.
type Counts struct {
	at, took  time.Duration // when it was counted, since Cache.start, and the duration
	Total     int
	States    [NumStates]int
	Absent    int                   // of the ready ones: in service by their phase, and in no cluster
	Attention []*holdfastv1.Machine // the most urgent machines that need attention
	Troubled  int                   // number of machines that need attention
	Urgent    int                   // of these, the ones with an urgent issue
	Hardware  Hardware
	Pools     []Group
	Racks     []Group // by location and name
}

// NumStates is the number of effective states, including the unspecified one.
const NumStates = int(holdfastv1.EffectiveState_RETIRED) + 1

// Group is a pool or a rack.
type Group struct {
	Name, Location string
	Filter         string // selects its machines
	Total          int
	Troubled       int
	States         [NumStates]int
	Affected       [NumStates]int // of States: those that need attention
	cells          []cell
}

// cell is a machine in the heat map.
type cell struct {
	id       string
	state    holdfastv1.EffectiveState_Value
	troubled bool
}

// mostAttention bounds the machines in Attention.
const mostAttention = 12

// count counts all machines.
func count(ctx context.Context, c holdfastv1.MachineServiceClient) (*Counts, error) {
	f := &Counts{}
	pools, racks := map[string]*Group{}, map[[2]string]*Group{}
	err := Each(ctx, c, "", func(m *holdfastv1.Machine) bool {
		s, spec := m.GetStatus(), m.GetSpec()
		x := cell{id: m.GetMachineId(), state: s.GetEffectiveState(), troubled: s.GetNeedsAttention()}
		f.Total++
		f.States[x.state]++
		if x.state == holdfastv1.EffectiveState_READY && s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE {
			f.Absent++
		}
		f.Hardware.add(m)
		if x.troubled {
			f.Troubled++
			if Urgency(m) == int(holdfastv1.Issue_URGENT) {
				f.Urgent++
			}
			f.Attention = append(f.Attention, m)
		}
		add(pools, spec.GetPool(), x, false)
		add(racks, [2]string{spec.GetLocation(), spec.GetRack()}, x, true)
		return true
	})
	byUrgency := func(a, b *holdfastv1.Machine) int { return cmp.Compare(Urgency(a), Urgency(b)) }
	slices.SortStableFunc(f.Attention, byUrgency)
	f.Attention = slices.Clip(f.Attention[:min(len(f.Attention), mostAttention)])
	for name, g := range pools {
		g.Name, g.Filter = name, filter.Equals("spec.pool", name)
		f.Pools = append(f.Pools, *g)
	}
	for key, g := range racks {
		g.Location, g.Name = key[0], key[1]
		g.Filter = filter.Equals("location", key[0]) + " AND " + filter.Equals("rack", key[1])
		f.Racks = append(f.Racks, *g)
	}
	slices.SortFunc(f.Pools, byName)
	slices.SortFunc(f.Racks, byName)
	return f, err
}

func add[K comparable](groups map[K]*Group, key K, x cell, keep bool) {
	g := groups[key]
	if g == nil {
		g = &Group{}
		groups[key] = g
	}
	g.Total++
	g.States[x.state]++
	if x.troubled {
		g.Troubled++
		g.Affected[x.state]++
	}
	if keep {
		g.cells = append(g.cells, x)
	}
}

// Urgency is that of the most urgent issue of a machine: the smaller, the more urgent. Machines
// without an issue come last.
func Urgency(m *holdfastv1.Machine) int {
	if all := m.GetStatus().GetIssues(); len(all) > 0 {
		return int(all[0].GetUrgency())
	}
	return int(holdfastv1.Issue_MINOR) + 1
}

// byName sorts r2 before r10, and groups without a name last.
func byName(a, b Group) int {
	return cmp.Or(display.Natural(a.Location, b.Location), display.Natural(a.Name, b.Name))
}
