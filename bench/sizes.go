package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const pageSize = 100

// growthBenchmarks returns the benchmarks that measure at several sizes of the fleet. The benchmark
// growth includes all others.
func growthBenchmarks() []benchmark {
	sized := func(name, within, short string, all ...measure) benchmark {
		return benchmark{
			within: within,
			name:   name, short: short, long: short + `.

It registers machines up to the first size, measures, registers more up to the
next size, and so on (--machines). Calls go to the leader in turn, keepalives to a
follower, each for the time of a slice.`,
			example: fmt.Sprintf("  holdfast-bench %[1]s\n  holdfast-bench %[1]s --machines 10000,1000000 -o json",
				name),
			parts: []part{{name, "several sizes of the fleet", inGrowth(all...)}},
			flags: []string{"machines", "slice"},
		}
	}
	return []benchmark{
		sized("list", "growth", "Measure reads of one machine, and of pages of 100 with a filter, as the fleet grows", lists),
		sized("memory", "growth", "Measure the memory of a peer as the fleet grows", memories),
		sized("restore", "growth", "Measure snapshot, restore and start of a peer as the fleet grows", restores),
		sized("growth", "", "Measure everything that may grow with the fleet: reads, pages, keepalives, runs, "+
			"memory, snapshot, restore, start", lists, keepalives, starts, memories, restores),
	}
}

// lists reads machines and pages.
func lists(ctx context.Context, g *growing) error {
	return g.onLeader(ctx, func(conn *grpc.ClientConn, _ *localcluster.Peer) error {
		machines := holdfastv1.NewMachineServiceClient(conn)
		get, err := g.times(ctx, func(ctx context.Context) error {
			_, err := machines.GetMachine(ctx,
				&holdfastv1.GetMachineRequest{MachineId: anyMachine(g.size)})
			return err
		})
		if err != nil {
			return err
		}
		g.figure("get", "one machine read, p50", report.Quantile(report.Millis(get), 0.5), "ms", nil)
		for _, p := range []struct{ id, what, filter string }{
			{"page", "a page of 100, filter on a label", fmt.Sprintf("labels.rack = %q", "r7")},
			{"rare", "a page of 100, filter that nothing matches", `labels.rack = "none"`},
			{"plain", "a page of 100, no filter", ""},
		} {
			wants := map[string]int{"page": min(pageSize, (g.size-7+racks-1)/racks),
				"plain": min(pageSize, g.size+len(g.agents))}[p.id]
			took, err := g.times(ctx, func(ctx context.Context) error {
				page, err := machines.ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: p.filter,
					PageSize: pageSize})
				if err == nil && len(page.GetMachines()) != wants {
					err = fmt.Errorf("list machines with filter %q: got %d, want %d", p.filter,
						len(page.GetMachines()), wants)
				}
				return err
			})
			if err != nil {
				return err
			}
			g.figure(p.id, p.what+", p50", report.Quantile(report.Millis(took), 0.5), "ms", nil)
		}
		return nil
	})
}

// keepalives sends keepalives of some agents, besides the fleet, to a follower.
func keepalives(ctx context.Context, g *growing) (err error) {
	leader, followers, err := g.roles(ctx)
	if err != nil {
		return err
	}
	if g.agents == nil {
		if g.agents, err = g.machineAgents(ctx, perConn); err != nil {
			return err
		}
	}
	// at each size, because they may have expired since the last one
	if _, err := g.register(ctx, g.agents); err != nil {
		return err
	}
	wire, err := g.target(followers[0]).Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", followers[0].ID, err)
	}
	defer wire.Close()
	next := 0
	renew := func(context.Context) error {
		a := g.agents[next%len(g.agents)]
		next++
		status, body, err := wire.Call(a.Keepalive(nil, wire.Addr()), nil)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("keepalive of %s at %s: %w", a.ID, followers[0].ID, load.Wrong(status, body, err))
		}
		return nil
	}
	for range g.agents { // the first one of each may be a change
		if err := renew(ctx); err != nil {
			return err
		}
	}
	took, err := g.times(ctx, renew)
	if err != nil {
		return err
	}
	g.figure("keepalive", "a keepalive of an agent, at a follower, p50",
		report.Quantile(report.Millis(took), 0.5), "ms", nil)
	return g.stillLeads(ctx, leader)
}

// starts starts runs.
func starts(ctx context.Context, g *growing) error {
	return g.onLeader(ctx, func(conn *grpc.ClientConn, _ *localcluster.Peer) error {
		took, err := g.times(ctx, func(ctx context.Context) error {
			err := g.machines.startRun(ctx, conn)
			if errors.Is(err, contest.ErrEnough) {
				return errors.New("all machines have a run: choose a larger fleet or shorter slices")
			}
			return err
		})
		g.figure("start", "a run started, p50", report.Quantile(report.Millis(took), 0.5), "ms", nil)
		return err
	})
}

// memories reads the memory of the peers.
func memories(_ context.Context, g *growing) error {
	now, err := g.memory()
	if err != nil {
		return err
	}
	g.figure("memory", "memory of a peer", now/1024, "GiB", report.AtMost(goalMemory))
	g.figure("bytes", "memory per machine, without that of an empty peer", (now-g.empty)*(1<<20)/float64(g.size),
		"B", nil)
	return nil
}

// restores saves a snapshot under writes, restarts a follower, and restores the snapshot.
func restores(ctx context.Context, g *growing) error {
	file := filepath.Join(g.dir, fmt.Sprintf("%d.snap", g.size))
	var saved time.Duration
	var stall []time.Duration
	before, err := g.used()
	if err != nil {
		return err
	}
	err = g.onLeader(ctx, func(conn *grpc.ClientConn, leader *localcluster.Peer) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		var eg errgroup.Group
		eg.Go(func() error {
			for running.Err() == nil {
				began := time.Now()
				if err := probe(ctx, conn); err != nil {
					return err
				}
				stall = append(stall, time.Since(began))
			}
			return nil
		})
		began := time.Now()
		err := g.operator(ctx, leader, "snapshot", "save", file)
		saved = time.Since(began)
		stop()
		return errors.Join(err, eg.Wait())
	})
	if err != nil {
		return err
	}
	if err := g.usedBy("save", "the snapshot, and for writes meanwhile", before); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read the size of the snapshot: %w", err)
	}
	g.figure("save", "a snapshot saved and checked by holdfast operator", saved.Seconds(), "s",
		report.AtMost(goalSnapshot))
	g.figure("file", "its size", float64(info.Size())/(1<<20), "MiB", nil)
	g.figure("stall", "longest write meanwhile", report.Quantile(report.Millis(stall), 1), "ms", report.AtMost(goalStall))
	_, followers, err := g.roles(ctx)
	if err != nil {
		return err
	}
	if err := followers[0].Kill(); err != nil {
		return err
	}
	began := time.Now()
	start, stop := context.WithTimeout(ctx, runsTimeout)
	defer stop()
	if err := errors.Join(followers[0].Start(start), g.cluster.WaitReady(start)); err != nil {
		return err
	}
	g.figure("up", "a follower killed and started, until it is ready", time.Since(began).Seconds(), "s", nil)
	over := restoring{id: "restore", where: "over the fleet", args: []string{"--abandon-runs"}}
	if err := g.restore(start, file, over); err != nil {
		return err
	}
	g.say("starting the peers without data")
	if err := g.startEmpty(start); err != nil {
		return err
	}
	empty := restoring{id: "restore_empty", where: "into an empty cluster", args: []string{"--other-cluster"},
		wanted: report.AtMost(goalRestore)}
	return errors.Join(g.restore(start, file, empty), os.Remove(file))
}

// restoring is one way to restore a snapshot.
type restoring struct {
	id, where string
	args      []string // further arguments of holdfast operator snapshot restore
	wanted    *report.Goal
}

// restore restores a snapshot.
func (g *growing) restore(ctx context.Context, file string, r restoring) error {
	leader, _, err := g.roles(ctx)
	if err != nil {
		return err
	}
	before, err := g.used()
	if err != nil {
		return err
	}
	began := time.Now()
	args := append([]string{"snapshot", "restore", file, "--yes"}, r.args...)
	if err := g.operator(ctx, leader, args...); err != nil {
		return err
	}
	g.figure(r.id, "the snapshot restored "+r.where+" by holdfast operator", time.Since(began).Seconds(), "s",
		r.wanted)
	if err := errors.Join(g.everywhere(ctx, leader), g.cluster.WaitReady(ctx)); err != nil {
		return err
	}
	g.figure(r.id+"_all", "until all peers have restored it", time.Since(began).Seconds(), "s", nil)
	if err := g.usedBy(r.id, "the restore "+r.where, before); err != nil {
		return err
	}
	now, err := g.memory()
	if err != nil {
		return err
	}
	g.figure(r.id+"_memory", "memory of a peer after that", now/1024, "GiB", nil)
	return nil
}

// startEmpty stops the peers, deletes their data and starts them, so that they form a new cluster.
func (g *growing) startEmpty(ctx context.Context) error {
	for _, p := range g.cluster.Peers() {
		if err := errors.Join(p.Kill(), p.Wipe()); err != nil {
			return err
		}
	}
	for _, p := range g.cluster.Peers() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return g.cluster.WaitReady(ctx)
}
