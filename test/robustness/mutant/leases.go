package mutant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/test/failpoint"
	"github.com/holdfast-metal/holdfast/test/lab"
	"github.com/holdfast-metal/holdfast/test/robustness/check"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// agentTTL is short enough for a lease to end within a scenario, and long compared with an
// election on a busy machine.
const agentTTL = 12 * time.Second

// shortLeases changes a number and no rule.
func shortLeases() []Patch {
	return []Patch{{"fsm/internal/lifetime/lifetime.go", "machineTTL = 5 * time.Minute",
		fmt.Sprintf("machineTTL = %d * time.Second", agentTTL/time.Second)}}
}

// agentTimes returns the resulting times: a leader adds half a TTL to inherited leases, and
// ten seconds are for a busy machine.
func agentTimes() workload.LeaseTimes {
	return workload.LeaseTimes{TTL: agentTTL, Max: agentTTL + agentTTL/2 + 10*time.Second}
}

// manualAgents are agents that send heartbeats when the scenario requests it.
type manualAgents struct {
	*bench
	*workload.ManualAgents
	times workload.LeaseTimes
}

// The agents of these scenarios: one whose lease is tested, and one whose heartbeats record
// the lease clock.
const subject, other = "agent", "other"

func (e Env) manualAgents(ctx context.Context) (*manualAgents, error) {
	// With Raft's default timeouts, a busy machine does not lose its leader. The death of a
	// process is noticed at once anyway.
	b, err := e.openWith(ctx, failpoint.Switches{}, lab.Config{Slow: true})
	if err != nil {
		return nil, err
	}
	w, err := workload.NewManualAgents(ctx, b.rec, b.Target(), workload.Leases{workload.Machine: agentTimes()})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return &manualAgents{b, w, agentTimes()}, nil
}

// come registers an agent and sends its first heartbeat, which is recorded.
func (h *manualAgents) come(ctx context.Context, peer int, id string) error {
	_, err := h.Register(ctx, peer, id)
	if err == nil {
		_, err = h.Heartbeat(ctx, peer, id)
	}
	return err
}

// untilLost polls until the subject is lost, or the longest possible time is over.
func (h *manualAgents) untilLost(ctx context.Context) error {
	patience, stop := context.WithTimeout(ctx, h.times.Max+5*time.Second)
	defer stop()
	for peer := 0; patience.Err() == nil; peer++ {
		// If a peer does not answer, try the next one.
		if c, err := h.Read(patience, peer%len(h.Peers()), subject); err == nil && c == workload.Lost {
			return nil
		}
		if err := wait.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil // the check reports the violation
}

func (h *manualAgents) truth(ctx context.Context) ([]error, error) {
	if err := h.Steady(ctx); err != nil {
		return nil, err
	}
	history := h.rec.History(machineID)
	var err error
	if history.Fleet, err = h.Fleet(ctx); err != nil {
		return nil, err
	}
	return check.Truth(ctx, history, h.bench.Target(), h.dir), nil
}

// answeredFromMemory makes the leader answer heartbeats from memory, and then die: the next
// one knows only of the first.
func answeredFromMemory() Scenario {
	return Scenario{Name: "the leader dies after heartbeats that are not recorded", Provoke: shortLeases(),
		Run: func(ctx context.Context, e Env) ([]error, error) {
			h, err := e.manualAgents(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = h.close() }()
			leader, err := h.Leader(ctx)
			if err != nil {
				return nil, err
			}
			at := h.index(leader.ID)
			if err := h.come(ctx, at, subject); err != nil {
				return nil, err
			}
			// The recorded heartbeat may be up to half a TTL older than the newest one.
			for began := time.Now(); time.Since(began) < h.times.TTL/2-300*time.Millisecond; {
				if _, err := h.Heartbeat(ctx, at, subject); err != nil {
					return nil, err
				}
				if err := wait.Sleep(ctx, 100*time.Millisecond); err != nil {
					return nil, err
				}
			}
			if err := h.come(ctx, at, other); err != nil {
				return nil, err
			}
			over := h.Disturbed()
			if err := leader.Kill(); err != nil {
				return nil, err
			}
			if err := h.Steady(ctx); err != nil {
				return nil, err
			}
			over()
			if err := h.untilLost(ctx); err != nil {
				return nil, err
			}
			return h.truth(ctx)
		}}
}

// allDead kills all peers for longer than a lease lasts.
func allDead() Scenario {
	return Scenario{Name: "all peers are dead for longer than a TTL", Provoke: shortLeases(),
		Run: func(ctx context.Context, e Env) ([]error, error) {
			h, err := e.manualAgents(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = h.close() }()
			h.stop() // only this scenario starts peers
			if err := h.come(ctx, 0, subject); err != nil {
				return nil, err
			}
			over := h.Disturbed()
			for _, p := range h.Peers() {
				if err := p.Kill(); err != nil {
					return nil, err
				}
			}
			heal := h.NoQuorum()
			if err := wait.Sleep(ctx, h.times.TTL*5/3); err != nil { // a leader would add half a TTL
				return nil, err
			}
			heal()
			for _, p := range h.Peers() {
				if err := p.Start(ctx); err != nil {
					return nil, err
				}
			}
			lost := make(chan error, 1)
			go func() { lost <- h.untilLost(ctx) }() // it may end before all are ready
			err = h.Steady(ctx)
			over()
			if err := errors.Join(err, <-lost); err != nil {
				return nil, err
			}
			return h.truth(ctx)
		}}
}

// inherited stops an agent, and then the leader. The next leader has never received a
// heartbeat of it, but must declare it lost.
func inherited() Scenario {
	return Scenario{Name: "an agent is gone, and then the leader", Provoke: shortLeases(),
		Run: func(ctx context.Context, e Env) ([]error, error) {
			h, err := e.manualAgents(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = h.close() }()
			if err := h.come(ctx, 0, subject); err != nil {
				return nil, err
			}
			leader, err := h.Leader(ctx)
			if err != nil {
				return nil, err
			}
			over := h.Disturbed()
			if err := leader.Kill(); err != nil {
				return nil, err
			}
			if err := h.Steady(ctx); err != nil {
				return nil, err
			}
			over()
			if err := h.untilLost(ctx); err != nil {
				return nil, err
			}
			return h.truth(ctx)
		}}
}
