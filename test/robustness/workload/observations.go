package workload

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// names are shared by all clients of one fleet: the pool of agents, the region of pools,
// the host of services.
type names struct{ pool, region, host string }

// observeEvery is the time between two reads of all holders of leases by one observer.
const observeEvery = 300 * time.Millisecond

// slowRead is the duration of a read above which the cluster counts as unhealthy.
const slowRead = 500 * time.Millisecond

// observations stores the reads of observers.
type observations struct {
	mu    sync.Mutex
	all   []Observation
	known map[string]Condition // newest, by id
}

// add keeps all losses, and the changes of other conditions: the checks need no more.
func (s *observations) add(some []Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]Condition{}
	}
	for _, one := range some {
		if one.State == Lost || s.known[one.ID] != one.State {
			s.known[one.ID] = one.State
			s.all = append(s.all, one)
		}
	}
}

func (s *observations) seen() []Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Observation(nil), s.all...)
}

// poll reads all holders, each time at another peer.
func (f *fleet) poll(ctx context.Context, at int) {
	for ; wait.Sleep(ctx, observeEvery) == nil; at++ {
		for _, kind := range []Holder{Machine, Pool, Service} {
			over := f.w.Disturbed()
			began := time.Now()
			some, err := f.w.rec.observe(ctx, at%len(f.w.rec.peers), kind, f.names())
			if err == nil {
				f.observations.add(some)
			}
			if err != nil || time.Since(began) > slowRead {
				over() // later losses are excused: a busy machine has elections without a fault
			}
		}
	}
}

// observeAll reads all holders, with a linearizable read of some peer for each kind.
func (r *Recorder) observeAll(ctx context.Context, f names) ([]Observation, error) {
	all := []Observation{} // not nil, even without holders
	for i, kind := range []Holder{Machine, Pool, Service} {
		some, err := r.observe(ctx, i%len(r.peers), kind, f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// observe reads the condition of all holders of a kind at one peer, linearizably.
func (r *Recorder) observe(ctx context.Context, at int, kind Holder, f names) ([]Observation, error) {
	p := r.peers[at]
	began := r.Since()
	var all []Observation
	add := func(id, name string, c Condition) {
		all = append(all, Observation{Holder: kind, ID: id, Name: name, State: c, Call: began})
	}
	switch kind {
	case Machine:
		list, err := call(ctx, p.machines.ListMachines,
			&holdfastv1.ListMachinesRequest{Filter: filter.Equals("spec.pool", f.pool), PageSize: 1000})
		if err != nil {
			return nil, err
		}
		for _, m := range list.GetMachines() {
			c := Up
			if m.GetStatus().GetAgentState() == holdfastv1.Agent_EXPIRED {
				c = Lost
			}
			add(m.GetMachineId(), m.GetMachineId(), c)
		}
	case Pool:
		list, err := call(ctx, p.pools.ListPools, &holdfastv1.ListPoolsRequest{Region: f.region, PageSize: 1000})
		if err != nil {
			return nil, err
		}
		for _, p := range list.GetPools() {
			c := Up
			switch p.GetStatus() {
			case holdfastv1.Pool_UNAVAILABLE:
				c = Lost
			case holdfastv1.Pool_DRAINING, holdfastv1.Pool_ARCHIVED:
				c = Gone
			}
			add(p.GetPoolId(), p.GetPoolId(), c)
		}
	case Service:
		list, err := call(ctx, p.services.ListServices,
			&holdfastv1.ListServicesRequest{Filter: filter.Equals("host", f.host), PageSize: 1000})
		if err != nil {
			return nil, err
		}
		for _, s := range list.GetServices() {
			c := Up
			switch {
			case s.GetDeregistered():
				c = Gone
			case !s.GetActive():
				c = Lost
			}
			add(s.GetTarget().GetId(), s.GetTarget().GetServiceName(), c)
		}
	}
	ended := r.Since()
	for i := range all {
		all[i].Return = ended
	}
	return all, nil
}
