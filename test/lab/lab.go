// Package lab runs a cluster of processes for tests that crash, stop and wipe single peers
// at chosen moments, under the traffic and the checks of test/robustness.
//
// It manages the processes, and restarts those that died. Package check decides what is
// right.
package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/logstore"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// Config configures a lab.
type Config struct {
	Binary    string
	Dir       string          // of data and logs
	Env       []string        // further environment of each peer
	Args      []string        // further arguments of each peer
	Fleet     []string        // further arguments of the fake hardware
	Providers string          // further YAML in "providers:", after the fake hardware
	Stores    logstore.Stores // of the Raft logs; nil: the default of all peers
	Slow      bool            // Raft's default timeouts instead of elections within 150 ms
}

// Lab is three peers and fake hardware.
type Lab struct {
	*localcluster.Cluster
	Client   *client.Client
	Hardware *localcluster.FakeHardware

	mu     sync.Mutex
	held   map[string]bool // peers that are down on purpose
	deaths int
}

// multiplier shortens elections to 150 ms.
const multiplier = 0.3

// Open starts the hardware and all peers, and does not wait for them.
func Open(ctx context.Context, cfg Config) (*Lab, error) {
	hw, err := localcluster.StartFakeHardware(ctx, cfg.Binary, cfg.Dir, cfg.Fleet...)
	if err != nil {
		return nil, err
	}
	timeouts := multiplier
	if cfg.Slow {
		timeouts = 1
	}
	peers := localcluster.Config{Binary: cfg.Binary, Dir: cfg.Dir, FakeEndpoint: hw.Endpoint,
		RaftMultiplier: timeouts, Args: cfg.Args, Env: cfg.Env, Providers: cfg.Providers}
	if cfg.Stores != nil {
		peers.ArgsOf = cfg.Stores.Args
	}
	l := &Lab{Hardware: hw, held: map[string]bool{}}
	l.Cluster, err = localcluster.New(ctx, peers)
	if err != nil {
		return nil, errors.Join(err, hw.Close())
	}
	for _, p := range l.Peers() {
		if err := p.Start(ctx); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if l.Client, err = client.Dial(
		client.Config{Addrs: l.Addrs(), TLS: l.TLS(), Timeout: 30 * time.Second},
	); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close stops everything.
func (l *Lab) Close() error {
	var err error
	if l.Client != nil {
		err = l.Client.Close()
	}
	return errors.Join(err, l.Cluster.Close(), l.Hardware.Close())
}

// Target returns the cluster as a target of a workload.
func (l *Lab) Target() workload.Target {
	return workload.TargetOf(l.Cluster, l.Hardware.Endpoint)
}

// Revive restarts dead peers until ctx ends, except those that are held.
func (l *Lab) Revive(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, p := range l.Peers() {
			l.mu.Lock()
			if !l.held[p.ID] && !p.Running() && ctx.Err() == nil && p.Start(ctx) == nil {
				l.deaths++
			}
			l.mu.Unlock()
		}
	}
}

// Deaths returns the number of peers that Revive has restarted.
func (l *Lab) Deaths() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaths
}

// Hold keeps Revive from restarting a peer while do runs.
func (l *Lab) Hold(p *localcluster.Peer, do func() error) error {
	l.hold(p, true)
	defer l.hold(p, false)
	return do()
}

func (l *Lab) hold(p *localcluster.Peer, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[p.ID] = held
}

// Steady blocks until all peers are ready and agree on a leader, even if peers die
// meanwhile.
func (l *Lab) Steady(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := l.WaitReady(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// Until blocks until cond holds.
func Until(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// Follower returns a peer that does not lead.
func (l *Lab) Follower(ctx context.Context) (*localcluster.Peer, error) {
	leader, err := l.Leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range l.Peers() {
		if p != leader {
			return p, nil
		}
	}
	return nil, errors.New("no follower found")
}

// Register registers machines.
func (l *Lab) Register(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if _, err := l.Client.Machines().RegisterMachine(
			ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}},
		); err != nil {
			return fmt.Errorf("register machine %s: %w", id, err)
		}
	}
	return nil
}

// Plan creates a plan.
func (l *Lab) Plan(ctx context.Context, id string, steps ...*holdfastv1.Step) error {
	if _, err := l.Client.Plans().CreatePlan(
		ctx, &holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: id, Steps: steps}},
	); err != nil {
		return fmt.Errorf("create plan %s: %w", id, err)
	}
	return nil
}

// Start starts a run of a plan.
func (l *Lab) Start(ctx context.Context, machine, plan string) (*holdfastv1.Run, error) {
	run, err := l.Client.Runs().StartRun(ctx,
		&holdfastv1.StartRunRequest{RequestId: "lab-" + plan, MachineId: machine, PlanId: plan})
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", plan, machine, err)
	}
	return run, nil
}

// Ended blocks until a run has ended in a phase.
func (l *Lab) Ended(ctx context.Context, id string, want holdfastv1.Run_Phase) error {
	run, err := l.Client.WaitRun(ctx, id)
	if err != nil {
		return fmt.Errorf("wait for run %s, %s, waiting for %q: %w", id, run.GetPhase(), run.GetWait().GetSentence(), err)
	}
	if run.GetPhase() != want {
		return fmt.Errorf("run %s of %s is %s, want %s: %v", id, run.GetPlanId(), run.GetPhase(), want, run.GetError())
	}
	return nil
}
