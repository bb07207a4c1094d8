package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// fleet contains the counts of all machines that a user may see.
type fleet struct {
	at, took  time.Duration // when it was counted, since fleets.start, and the duration
	Total     int
	States    [numStates]int
	Attention []*holdfastv1.Machine // the most urgent machines that need attention
	Troubled  int                   // number of machines that need attention
	Pools     []group
	Racks     []group // by location and name
}

// numStates is the number of effective states, including the unspecified one.
const numStates = int(holdfastv1.EffectiveState_RETIRED) + 1

// group is a pool or a rack.
type group struct {
	Name, Location string
	Filter         string // selects its machines
	Total          int
	Troubled       int
	States         [numStates]int
	Affected       [numStates]int // of States: those that need attention
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

// countFleet counts all machines.
func countFleet(ctx context.Context, c holdfastv1.MachineServiceClient) (*fleet, error) {
	f := &fleet{}
	pools, racks := map[string]*group{}, map[[2]string]*group{}
	err := everyMachine(ctx, c, "", func(m *holdfastv1.Machine) bool {
		s, spec := m.GetStatus(), m.GetSpec()
		x := cell{id: m.GetMachineId(), state: s.GetEffectiveState(), troubled: s.GetNeedsAttention()}
		f.Total++
		f.States[x.state]++
		if x.troubled {
			f.Troubled++
			f.Attention = append(f.Attention, m)
		}
		add(pools, spec.GetPool(), x, false)
		add(racks, [2]string{spec.GetLocation(), spec.GetRack()}, x, true)
		return true
	})
	byUrgency := func(a, b *holdfastv1.Machine) int { return cmp.Compare(urgency(a), urgency(b)) }
	slices.SortStableFunc(f.Attention, byUrgency)
	f.Attention = slices.Clip(f.Attention[:min(len(f.Attention), mostAttention)])
	for name, g := range pools {
		g.Name, g.Filter = name, display.Equals("spec.pool", name)
		f.Pools = append(f.Pools, *g)
	}
	for key, g := range racks {
		g.Location, g.Name = key[0], key[1]
		g.Filter = display.Equals("location", key[0]) + " AND " + display.Equals("rack", key[1])
		f.Racks = append(f.Racks, *g)
	}
	slices.SortFunc(f.Pools, byName)
	slices.SortFunc(f.Racks, byName)
	return f, err
}

func add[K comparable](groups map[K]*group, key K, x cell, keep bool) {
	g := groups[key]
	if g == nil {
		g = &group{}
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

// urgency is that of the most urgent issue of a machine: the smaller, the more urgent. Machines
// without an issue come last.
func urgency(m *holdfastv1.Machine) int {
	if all := m.GetStatus().GetIssues(); len(all) > 0 {
		return int(all[0].GetUrgency())
	}
	return int(holdfastv1.Issue_MINOR) + 1
}

// byName sorts r2 before r10, and groups without a name last.
func byName(a, b group) int {
	return cmp.Or(display.Natural(a.Location, b.Location), display.Natural(a.Name, b.Name))
}

// fleets caches counts, because their cost grows with the number of machines, and many
// users may view them. There is one per scope. It is counted again after 20 times the
// duration of the count, and at least a second.
type fleets struct {
	start time.Time
	now   func() time.Time
	one   singleflight.Group

	mu  sync.Mutex
	all map[string]*fleet
}

// mostScopes bounds the number of cached counts.
const mostScopes = 32

func newFleets(now func() time.Time) *fleets {
	return &fleets{start: now(), now: now, all: map[string]*fleet{}}
}

// of returns the fleet that a user may see.
func (s *fleets) of(
	ctx context.Context,
	id *holdfastv1.Identity,
	c holdfastv1.MachineServiceClient,
) (*fleet, error) {
	key := id.GetRole().String() + " " + strings.Join(id.GetPools(), " ")
	s.mu.Lock()
	f := s.all[key]
	s.mu.Unlock()
	if f != nil && s.now().Sub(s.start)-f.at < max(time.Second, 20*f.took) {
		return f, nil
	}
	got, err, _ := s.one.Do(key, func() (any, error) {
		// Other requests wait for this count, so it must survive the cancellation of the
		// first one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
		defer cancel()
		begin := s.now()
		f, err := countFleet(ctx, c)
		if err != nil {
			return nil, err
		}
		f.at, f.took = s.now().Sub(s.start), s.now().Sub(begin)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.all) >= mostScopes {
			clear(s.all)
		}
		s.all[key] = f
		return f, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*fleet), nil //nolint:forcetypeassert // the function above returns a *fleet
}
