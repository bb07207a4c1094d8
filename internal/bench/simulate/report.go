package simulate

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-metal/holdfast/internal/bench/load"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Report is what a simulation has seen.
type Report struct {
	Began    time.Time        `json:"began"`
	Seconds  float64          `json:"seconds"`
	Peers    int              `json:"peers"`
	Kinds    map[string]Kind  `json:"kinds"` // agents, services, pools
	Machines int64            `json:"machines_declared"`
	Runs     *Runs            `json:"runs,omitempty"`
	Lost     map[string]int64 `json:"lost"`            // whom the cluster holds for gone at the end, by kind
	Left     map[string]int64 `json:"left"`            // who signed off then: agents cannot
	Notes    []string         `json:"notes,omitempty"` // what could not be found out, and why
}

// Kind is what members of one kind have seen.
type Kind struct {
	Members    int              `json:"members"`
	Known      int              `json:"known"`      // at the end: they have registered and were not forgotten
	Registered Latency          `json:"registered"` // registrations
	Beats      Latency          `json:"beats"`      // heartbeats that were taken
	Forgotten  int64            `json:"forgotten"`  // how often the cluster did not know one any more
	Failures   map[string]int64 `json:"failures"`   // tries that were of no use, by status; they were made again
	// the simulator's own: from when a call was due until it was made
	LateSeconds float64 `json:"late_p99_seconds"`
}

// Latency is how long calls took from when they were due.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
	Most  float64 `json:"max_seconds"`
}

// Runs is what has become of runs.
type Runs struct {
	Started  Latency          `json:"started"`
	Ended    Latency          `json:"ended"` // from the creation of a run to its end
	Phases   map[string]int64 `json:"phases"`
	Busy     int64            `json:"busy"` // not started, since the machine had another run
	Failures map[string]int64 `json:"failures"`
}

func latency(h *load.Histogram) Latency {
	return Latency{Count: h.Count(), P50: h.Quantile(0.5).Seconds(), P99: h.Quantile(0.99).Seconds(),
		Most: h.Most().Seconds()}
}

// report puts together what was seen, and asks the cluster whom it holds for gone.
func (f *fleet) report(ctx context.Context, began time.Time) (*Report, error) {
	r := &Report{Began: began.UTC(), Seconds: time.Since(began).Seconds(), Peers: len(f.peers),
		Kinds: map[string]Kind{}, Machines: f.declared.Load(), Lost: map[string]int64{}, Left: map[string]int64{}}
	for _, k := range f.kinds {
		if len(k.members) == 0 {
			continue
		}
		r.Kinds[k.name] = k.count()
		lost, err := f.lost(ctx, k.name)
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("the %s that were lost could not be counted: %v", k.name, err))
			continue
		}
		r.Lost[k.name] = lost
	}
	if f.Runs > 0 {
		f.runs.mu.Lock()
		defer f.runs.mu.Unlock()
		r.Runs = &Runs{Started: latency(&f.runs.started), Ended: latency(&f.runs.ended),
			Phases: maps.Clone(f.runs.phases), Busy: f.runs.busy, Failures: maps.Clone(f.runs.failures)}
	}
	return r, nil
}

// count reports what a kind has seen so far.
func (k *kind) count() Kind {
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	c := Kind{Members: len(k.members), Registered: latency(&k.seen.registered), Beats: latency(&k.seen.beats),
		Forgotten: k.seen.forgot,
		Failures:  map[string]int64{}, LateSeconds: k.seen.late.Quantile(0.99).Seconds()}
	c.Known = int(c.Registered.Count - c.Forgotten)
	maps.Copy(c.Failures, k.seen.failures)
	return c
}

// lost counts the members of a kind that the cluster holds for gone, now that the simulation has
// ended and before it could miss them for that.
func (f *fleet) lost(ctx context.Context, kind string) (int64, error) {
	n, token := int64(0), ""
	for {
		var here int
		var err error
		switch kind {
		case "agents":
			var page *holdfastv1.ListMachinesResponse
			page, err = f.client.Machines().ListMachines(ctx,
				&holdfastv1.ListMachinesRequest{Filter: fmt.Sprintf("agent_state = EXPIRED AND machine_id = \"%s-agent-*\"",
					f.Prefix), PageSize: 1000, PageToken: token})
			here, token = len(page.GetMachines()), page.GetNextPageToken()
		case "services":
			var page *holdfastv1.ListServicesResponse
			page, err = f.client.Registry().ListServices(ctx,
				&holdfastv1.ListServicesRequest{Filter: fmt.Sprintf("active = false AND id = \"%08x-*\"", f.run), PageSize: 1000,
					PageToken: token})
			here, token = len(page.GetServices()), page.GetNextPageToken()
		case "pools":
			var page *holdfastv1.ListPoolsResponse
			page, err = f.client.Pools().ListPools(ctx,
				&holdfastv1.ListPoolsRequest{Filter: fmt.Sprintf("status = UNAVAILABLE AND pool_id = \"%s-pool-*\"", f.Prefix),
					PageSize: 1000, PageToken: token})
			here, token = len(page.GetPools()), page.GetNextPageToken()
		}
		if n += int64(here); err != nil || token == "" {
			return n, err
		}
	}
}
