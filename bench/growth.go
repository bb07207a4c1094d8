package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/proc"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// goalGrowth is of docs/performance.md: get and a filtered page at 1,000,000 machines against
// 10,000.
const (
	goalGrowth             = 2  // x
	goalMemory             = 3  // GiB a peer, at a million
	goalSnapshot           = 5  // s, the same
	goalRestore            = 15 // s, into an empty cluster
	goalStall              = 40 // ms, the same
	smallFleet, largeFleet = 10_000, 1_000_000
)

// measure is a measurement at each size of the fleet.
type measure func(context.Context, *growing) error

// growing is a growing fleet.
type growing struct {
	*lab
	machines *machinePool
	agents   []load.Agent // created by the first measurement that needs them
	size     int          // current number of machines, without those of agents
	empty    float64      // MiB of a peer without machines, median
	series   map[string][]float64
}

// inGrowth fills a cluster to each size in turn and measures there.
func inGrowth(all ...measure) func(context.Context, *session) error {
	// The one active run never ends: other runs stay queued.
	return inHardware([]string{"--latency", "1h"}, []string{"--max-active-runs", "1", "--poll-calls-per-second", "1"},
		func(ctx context.Context, l *lab) error {
			if err := l.plan(ctx, powerCycle()); err != nil {
				return err
			}
			g := &growing{lab: l, machines: &machinePool{lab: l}, series: map[string][]float64{}}
			var err error
			if g.empty, err = g.memory(); err != nil {
				return err
			}
			for _, size := range l.sizes {
				if err := g.grow(ctx, size); err != nil {
					return err
				}
				for _, m := range all {
					if err := m(ctx, g); err != nil {
						return fmt.Errorf("at %s machines: %w", report.Thousands(int64(size)), err)
					}
				}
			}
			g.compare()
			return nil
		})
}

// grow registers machines up to a size. None of them has a run.
func (g *growing) grow(ctx context.Context, size int) error {
	more := size - g.size
	g.say("registering machines up to %s", report.Thousands(int64(size)))
	began := time.Now()
	if err := g.machines.fill(ctx, g.machines.made-int(g.machines.taken.Load())+size-g.machines.made); err != nil {
		return err
	}
	g.size = size
	g.figure("register", "machines registered", float64(more)/time.Since(began).Seconds(), "/s", nil)
	return nil
}

// figure adds a value at the current size of the fleet. Goals are for a million machines.
func (g *growing) figure(id, what string, value float64, unit string, wanted *report.Goal) {
	if g.size != largeFleet {
		wanted = nil
	}
	g.series[id] = append(g.series[id], value)
	g.report.Add(fmt.Sprintf("growth.%d.%s", g.size, id), fmt.Sprintf("%s machines: %s", report.Thousands(int64(g.size)),
		what), value, unit, wanted)
}

// compare reports the ratios of the largest to the smallest fleet.
func (g *growing) compare() {
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	if first == last {
		return
	}
	var wanted *report.Goal
	if first == smallFleet && last == largeFleet {
		wanted = report.AtMost(goalGrowth)
	} else {
		g.report.Note("the goals of large fleets are for %s machines against %s (--machines)", report.Thousands(largeFleet),
			report.Thousands(smallFleet))
	}
	for _, id := range []string{"get", "page"} {
		if s := g.series[id]; len(s) == len(g.sizes) {
			g.report.Add("growth."+id, fmt.Sprintf("%s, %s machines : %s",
				map[string]string{"get": "one machine read", "page": "a filtered page of 100"}[id],
				report.Thousands(int64(last)), report.Thousands(int64(first))), s[len(s)-1]/s[0], "x", wanted)
		}
	}
}

// memory returns the memory of a peer, the median of all.
func (g *growing) memory() (float64, error) {
	var all []float64
	for _, p := range g.cluster.Peers() {
		m, err := proc.HeldMiB(p.PID())
		if err != nil {
			return 0, err
		}
		all = append(all, m)
	}
	return report.Median(all), nil
}

// used returns the processor time of each peer so far, in seconds.
func (g *growing) used() (all []float64, err error) {
	for _, p := range g.cluster.Peers() {
		t, err := proc.ProcessorTime(p.PID())
		if err != nil {
			return nil, err
		}
		all = append(all, t.Seconds())
	}
	return all, nil
}

// usedBy reports the processor time of the peers since before.
func (g *growing) usedBy(id, what string, before []float64) error {
	each, err := g.used()
	if err != nil {
		return err
	}
	for i := range each {
		each[i] -= before[i]
	}
	g.figure(id+"_cpu", "processor time of a peer for "+what, report.Median(each), "s", nil)
	g.figure(id+"_cpu_max", "the same, of the busiest peer", slices.Max(each), "s", nil)
	return nil
}

// times calls do in sequence for a slice and returns the durations.
func (g *growing) times(ctx context.Context, do func(context.Context) error) ([]time.Duration, error) {
	var all []time.Duration
	for end := time.Now().Add(g.slice); time.Now().Before(end) || len(all) == 0; {
		began := time.Now()
		if err := do(ctx); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all, nil
}

// everywhere waits until all peers have applied the current index of the leader.
func (g *growing) everywhere(ctx context.Context, leader *localcluster.Peer) error {
	want, err := leader.Readiness(ctx)
	if err != nil {
		return err
	}
	for _, p := range g.cluster.Peers() {
		for {
			if now, err := p.Readiness(ctx); err == nil && now.AppliedIndex >= want.AppliedIndex {
				break
			}
			if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("wait until %s has index %d: %w", p.ID, want.AppliedIndex, err)
			}
		}
	}
	return nil
}

// onLeader calls do with a connection to the leader. It returns an error if the leader changes.
func (g *growing) onLeader(ctx context.Context, do func(*grpc.ClientConn, *localcluster.Peer) error) (err error) {
	leader, _, err := g.roles(ctx)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(leader.GRPCAddr, grpc.WithTransportCredentials(g.cluster.Credentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", leader.GRPCAddr, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := do(conn, leader); err != nil {
		return err
	}
	return g.stillLeads(ctx, leader)
}

// operator runs `holdfast operator` with the credentials of an admin.
func (g *growing) operator(ctx context.Context, at *localcluster.Peer, args ...string) error {
	files := g.cluster.Files()
	args = append([]string{"--addr", at.GRPCAddr, "--ca", files.CA, "--cert", files.AdminCert, "--key",
		files.AdminKey, "--timeout", runsTimeout.String(), "operator"}, args...)
	out, err := exec.CommandContext(ctx, g.binary, args...).CombinedOutput() //nolint:gosec // our own executable
	if err != nil {
		return fmt.Errorf("holdfast %s: %w: %s", strings.Join(args[len(args)-2:], " "), err, out)
	}
	return nil
}
