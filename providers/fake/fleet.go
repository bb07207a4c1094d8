package fake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// Fleet is a fleet of fake machines. A machine is created when its id is first used: powered on,
// booted from DISK, with the image "factory". It is safe for concurrent use.
type Fleet struct {
	config Config
	ops    map[string]operation
	faults atomic.Pointer[faultTable]
	log    journal

	mu       sync.RWMutex
	machines map[string]*machine

	setMu    sync.Mutex // one replacement of faults at a time
	changeMu sync.Mutex // one change of the faults in force at a time
}

// faultTable has the faults in force. It is replaced, never modified.
type faultTable struct {
	all      faultSet
	machines map[string]faultSet
}

// faultSet has the number of the change that set it. Calls are counted from that change.
type faultSet struct {
	Faults
	change uint64
	since  time.Time
}

func (t *faultTable) of(machineID string) faultSet {
	if s, ok := t.machines[machineID]; ok {
		return s
	}
	return t.all
}

// NewFleet returns a fleet. Zero durations have their defaults. A configuration that does not come
// from ParseConfig should be checked with Validate first.
func NewFleet(c Config) *Fleet {
	f := &Fleet{config: c.withDefaults(), ops: make(map[string]operation), machines: make(map[string]*machine)}
	for _, o := range operations() {
		f.ops[o.name] = o
	}
	f.faults.Store(&faultTable{})
	f.setFaults(c.Faults, c.Machines)
	return f
}

// Effects returns the effects on a machine by a run, in order, after a sequence number. An empty id
// matches all; after 0 means from the first.
func (f *Fleet) Effects(machineID, runID string, after int) []Effect {
	return f.log.list(machineID, runID, after)
}

// SetFaults replaces all faults: those of every machine, and the full faults of machines that
// differ. If they are not valid, it returns an error and changes nothing.
func (f *Fleet) SetFaults(all Faults, machines map[string]Faults) error {
	if err := validateFaults(all, machines); err != nil {
		return err
	}
	f.setFaults(all, machines)
	return nil
}

// Faults returns the faults in force: those of every machine, and of machines that differ.
func (f *Fleet) Faults() (Faults, map[string]Faults) {
	t := f.faults.Load()
	ms := make(map[string]Faults, len(t.machines))
	for id, s := range t.machines {
		ms[id] = s.clone()
	}
	return t.all.clone(), ms
}

// setFaults keeps the call counts of machines whose faults do not change.
func (f *Fleet) setFaults(all Faults, machines map[string]Faults) {
	f.setMu.Lock()
	defer f.setMu.Unlock()
	old := f.faults.Load()
	change := old.all.change
	for _, s := range old.machines {
		change = max(change, s.change)
	}
	change++
	now := f.config.Now()
	keep := func(s faultSet, next Faults) faultSet {
		if equalFaults(s.Faults, next) {
			return s
		}
		return faultSet{Faults: next.clone(), change: change, since: now}
	}
	t := &faultTable{all: keep(old.all, all), machines: make(map[string]faultSet, len(machines))}
	for id, m := range machines {
		t.machines[id] = keep(old.of(id), m)
	}
	f.faults.Store(t)
}

func equalFaults(a, b Faults) bool {
	if !slices.Equal(a.Hang, b.Hang) || !slices.Equal(a.Lie, b.Lie) || !maps.Equal(a.Broken, b.Broken) {
		return false
	}
	return a.Latency == b.Latency && a.Fail == b.Fail && a.FailAfter == b.FailAfter && a.Flap == b.Flap &&
		a.Auth == b.Auth && a.Gone == b.Gone && a.OnlyFirst == b.OnlyFirst
}

// settle returns how late an effect on a machine can show.
func (f *Fleet) settle(machineID string) time.Duration {
	latency := time.Duration(f.faults.Load().of(machineID).Latency)
	return 2*latency + max(time.Second, 2*time.Duration(f.config.PowerTime))
}

// machine returns a machine, and creates it on first use.
func (f *Fleet) machine(id string) *machine {
	f.mu.RLock()
	m := f.machines[id]
	f.mu.RUnlock()
	if m != nil {
		return m
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m = f.machines[id]; m == nil {
		m = newMachine(id, f)
		f.machines[id] = m
	}
	return m
}

// known returns a machine that was used before.
func (f *Fleet) known(id string) (*machine, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	m, ok := f.machines[id]
	return m, ok
}

func (f *Fleet) ids() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Sorted(maps.Keys(f.machines))
}

// do performs one call, subject to the faults.
func (f *Fleet) do(ctx context.Context, o operation, r request) (any, error) {
	m := f.machine(r.MachineID)
	s, err := m.arrive(o, r)
	if err != nil {
		return nil, err
	}
	defer m.leave(o)
	what := o.name + " of " + r.MachineID
	if s.hang {
		<-ctx.Done()
		return nil, providers.Errorf(providers.Timeout, what, "no answer: %w", context.Cause(ctx))
	}
	if err := delay(ctx, s.latency, o.effect); err != nil {
		return nil, providers.Errorf(providers.Timeout, what, "no answer in time: %w", err)
	}
	switch {
	case s.gone:
		return nil, providers.Errorf(providers.Gone, what, "the machine does not exist any more")
	case s.auth && o.bmc:
		m.refuse()
		return nil, providers.Errorf(providers.Auth, what, "BMC refused the credentials")
	case s.down && !o.observes:
		return nil, providers.Errorf(providers.Transient, what, "machine does not answer")
	case s.fail:
		return nil, providers.Errorf(providers.Transient, what, "BMC answered 500")
	case s.lie:
		return nil, nil
	}
	answer, err := m.run(o, s, r)
	var classed *providers.Error
	switch {
	case errors.As(err, &classed):
		return nil, err
	case err != nil:
		return nil, providers.Errorf(providers.Unsupported, what, "%w", err)
	case s.failAfter:
		return nil, providers.Errorf(providers.Transient, what, "BMC answered 500 after the effect")
	}
	return answer, nil
}

// delay waits. An effect is already in transit to the hardware: it happens even if the caller has
// gone.
func delay(ctx context.Context, d time.Duration, effect bool) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	if effect {
		<-t.C
		return nil
	}
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
