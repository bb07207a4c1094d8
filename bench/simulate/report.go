package simulate

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-metal/holdfast/bench/load"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Report is the result of a simulation.
type Report struct {
	Began    time.Time        `json:"began"`
	Seconds  float64          `json:"seconds"`
	Peers    int              `json:"peers"`
	Kinds    map[string]Kind  `json:"kinds"` // agents, services, pools
	Machines int64            `json:"machines_declared"`
	Runs     *Runs            `json:"runs,omitempty"`
	Lost     map[string]int64 `json:"lost"`            // members that had expired at the end, by kind
	Left     map[string]int64 `json:"left"`            // members that deregistered at the end; agents cannot
	Notes    []string         `json:"notes,omitempty"` // observations that are missing, and why
}

// Kind is the result for the members of one kind.
type Kind struct {
	Members    int              `json:"members"`
	Known      int              `json:"known"`      // registered members at the end
	Registered Latency          `json:"registered"` // registrations
	Heartbeats Latency          `json:"heartbeats"` // acknowledged heartbeats
	Forgotten  int64            `json:"forgotten"`  // heartbeats of members that were not registered any more
	Failures   map[string]int64 `json:"failures"`   // failed tries, by status; they were retried
	// delay by the simulator: from the due time of a call to its begin
	LateSeconds float64 `json:"late_p99_seconds"`
}

// Latency is the distribution of the durations of calls, from their due times.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
	Most  float64 `json:"max_seconds"`
}

// Runs is the result for runs.
type Runs struct {
	Started  Latency          `json:"started"`
	Ended    Latency          `json:"ended"` // from the creation of a run to its end
	Phases   map[string]int64 `json:"phases"`
	Busy     int64            `json:"busy"` // not started: the machine had another run
	Failures map[string]int64 `json:"failures"`
}

func latency(h *load.Histogram) Latency {
	return Latency{Count: h.Count(), P50: h.Quantile(0.5).Seconds(), P99: h.Quantile(0.99).Seconds(),
		Most: h.Most().Seconds()}
}

// report returns the result, with the expired members that the cluster reports.
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

// count returns the result for a kind so far.
func (k *kind) count() Kind {
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	c := Kind{Members: len(k.members), Registered: latency(&k.seen.registered), Heartbeats: latency(&k.seen.heartbeats),
		Forgotten: k.seen.forgot,
		Failures:  map[string]int64{}, LateSeconds: k.seen.late.Quantile(0.99).Seconds()}
	c.Known = int(c.Registered.Count - c.Forgotten)
	maps.Copy(c.Failures, k.seen.failures)
	return c
}

// lost counts the expired members of a kind. It is called right after the simulation, before
// members expire because it has ended.
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
