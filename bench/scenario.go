package bench

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// scenario is a load that several benchmarks use: compare on the clusters of two builds in turn,
// scaling on clusters of different sizes.
type scenario struct {
	name, about     string
	hardware, peers []string // arguments; nil hardware: no fake hardware
	// set prepares a cluster and calls do with its contenders, which end when it returns.
	set func(ctx context.Context, l *lab, do turns) error
}

// turns measures contenders in turn.
type turns func(context.Context, *lab, []*contest.Contender) error

// idleHardware returns arguments with which one run never ends and the others stay queued.
func idleHardware() (hardware, peers []string) {
	return []string{"--latency", "1h"}, []string{"--max-active-runs", "1", "--poll-calls-per-second", "1"}
}

func scenarios() []scenario {
	hardware, peers := idleHardware()
	return []scenario{
		{"startrun", "StartRun on the leader", hardware, peers, setStarts},
		{"engine", "a command that changes nothing (Probe) on the leader", nil, nil, setProbes},
		{"reads", "linearizable reads on a follower: without writes, with 16 writers, and at 1,000 a second with them",
			nil, nil, setReads},
		{"watch", "StartRun until all watchers of a follower have the event", hardware, peers, setWatch},
		{"steps", "runs of three steps: from the end of a step to the begin of the next", atOnce(), nil, setSteps},
		{"plan", "a run of five steps, one client", atOnce(), rarePolls(), setPlan},
	}
}

func scenarioNames() (names []string) {
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	return names
}

// in starts and prepares a cluster for the scenario.
func (sc *scenario) in(ctx context.Context, s *session, cfg localcluster.Config, do turns) error {
	set := func(ctx context.Context, l *lab) error { return sc.set(ctx, l, do) }
	if sc.hardware == nil {
		return inLabOf(cfg, set)(ctx, s)
	}
	return inHardwareOf(cfg, sc.hardware, sc.peers, set)(ctx, s)
}

// servers returns the processes of the peers by the names of contenders.
func (l *lab) servers(ctx context.Context) (map[string][]int, *localcluster.Peer, *localcluster.Peer, error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	procs := map[string][]int{"leader": {leader.PID()}, "servers": {leader.PID()}}
	for _, p := range followers {
		procs["followers"] = append(procs["followers"], p.PID())
		procs["servers"] = append(procs["servers"], p.PID())
	}
	return procs, leader, followers[0], nil
}

// calls creates contenders of clients that make the same calls, and closes their connections at the
// end.
type calls struct {
	*lab
	procs map[string][]int
	all   []*contest.Contender
	open  []*contest.Calls
}

// to returns clients that are connected to a peer.
func (c *calls) to(p *localcluster.Peer, clients int, call func(context.Context, grpc.ClientConnInterface) error) (
	*contest.Calls, error,
) {
	made, err := contest.NewCalls(clients, c.cluster.Credentials(), []string{p.GRPCAddr}, call)
	if err == nil {
		c.open = append(c.open, made)
	}
	return made, err
}

func (c *calls) add(name string, load contest.Loader) {
	c.all = append(c.all, &contest.Contender{Name: name, Load: load, Procs: c.procs})
}

func (c *calls) close() error {
	var errs []error
	for _, o := range c.open {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}

// forClients adds a contender for each number of clients, and runs them.
func (l *lab) forClients(
	ctx context.Context, name string, do turns, call func(context.Context, grpc.ClientConnInterface) error,
	wrap func(*contest.Calls, int) contest.Loader,
) (err error) {
	procs, leader, _, err := l.servers(ctx)
	if err != nil {
		return err
	}
	c := &calls{lab: l, procs: procs}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, n := range l.clients {
		made, err := c.to(leader, n, call)
		if err != nil {
			return err
		}
		c.add(fmt.Sprintf("%s.%d", name, n), wrap(made, n))
	}
	return do(ctx, l, c.all)
}

func setStarts(ctx context.Context, l *lab, do turns) error {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	machines := &machinePool{lab: l}
	return l.forClients(ctx, "startrun", do, machines.startRun, func(c *contest.Calls, n int) contest.Loader {
		return &starter{Calls: c, machinePool: machines, want: min(100*n, 10_000)}
	})
}

func setProbes(ctx context.Context, l *lab, do turns) error {
	return l.forClients(ctx, "engine", do, probe, func(c *contest.Calls, _ int) contest.Loader { return c })
}
