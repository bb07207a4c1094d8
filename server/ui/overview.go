package ui

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
)

// overviewBody is the overview page.
type overviewBody struct {
	Fleet   *fleet.Counts
	Peers   health.Peers
	Trouble string // the filter of the machines that need attention
	States  []stateCount
	Absent  string // the filter of the machines in service that are in no cluster
	Heat    fleet.Map
	Pools   []poolRow
	Active  []*holdfastv1.Run
	More    bool // there are more active runs
	Recent  []*holdfastv1.Run
	Held    []*holdfastv1.Plan // held by their brake
	RunsErr string
}

type stateCount struct {
	State  holdfastv1.EffectiveState_Value
	N      int
	Filter string
}

type poolRow struct {
	fleet.Group
	Bar []fleet.Slice
}

// activeRuns is the filter of runs that have not ended.
const activeRuns = "phase = RUNNING OR phase = PENDING"

// A machine in service that its cluster does not have is in the state READY, but is not free.
const (
	freeMachines   = "effective_state = READY AND phase != IN_SERVICE"
	absentMachines = "effective_state = READY AND phase = IN_SERVICE"
)

// mostRuns bounds the active and the recent runs in the overview.
const mostRuns = 12

func (d *dashboard) overview(v *visit) error {
	f, err := d.fleets.Of(v.ctx, v.who, v.read.machines)
	if err != nil {
		return err
	}
	st, err := d.health.Status(v.ctx, v.read.cluster)
	if err != nil {
		return err
	}
	b := overviewBody{Fleet: f, Peers: health.PeersOf(st), Trouble: needsAttention, Heat: fleet.Draw(f),
		Absent: absentMachines}
	for s := 1; s < fleet.NumStates; s++ {
		state := holdfastv1.EffectiveState_Value(s)
		c := stateCount{state, f.States[s], "effective_state = " + state.String()}
		if state == holdfastv1.EffectiveState_READY {
			c.N, c.Filter = c.N-f.Absent, freeMachines
		}
		b.States = append(b.States, c)
	}
	for _, g := range f.Pools {
		b.Pools = append(b.Pools, poolRow{g, fleet.Bar(&g)})
	}
	active, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{
		Filter:   activeRuns,
		PageSize: mostRuns,
	})
	if err != nil {
		return err
	}
	b.Active, b.More = active.GetRuns(), active.GetNextPageToken() != ""
	recent, err := v.read.runs.ListRuns(v.ctx, &holdfastv1.ListRunsRequest{
		Filter:   "NOT (phase = RUNNING OR phase = PENDING)",
		PageSize: mostRuns,
	})
	if err != nil {
		return err
	}
	b.Recent = recent.GetRuns()
	plans, err := v.allPlans()
	if err != nil {
		return err
	}
	for _, p := range plans {
		if p.GetBrake() != nil {
			b.Held = append(b.Held, p)
		}
	}
	return v.page("overview", "Overview", "overview", b, nil)
}
