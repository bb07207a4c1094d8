package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/cores"
	"github.com/holdfast-metal/holdfast/bench/proc"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// setup is a size of the cluster and of the share of each peer.
type setup struct {
	peers int
	share float64 // cores of each peer
}

func (u setup) name() string { return fmt.Sprintf("%dx%g", u.peers, u.share) }

// needs returns the number of cores that a setup needs: those of the peers, and the share of one
// peer for the driver.
func (u setup) needs() float64 { return float64(u.peers+1) * u.share }

// scaling returns the benchmark of clusters of different sizes.
func scaling() benchmark {
	b := benchmark{
		name: "scaling", short: "Measure clusters of 3 and 5 peers with half a core and one core each", apart: true,
		long: `Run the same load on clusters of 3 and 5 peers that have half a core or one core
each, and print one table.

Peers are limited by control groups (quota in steps of 10 ms), which takes root
or --cgroup. What remains of the machine is for the load driver and the fake
hardware: at least as much as a peer has. A row whose setup needs more cores than
the machine has is left out. The columns LEADER, FOLLOWER and DRIVER are the used
part of their share: if that of the driver is near 100%, the row is about the
driver.`,
		example: `  holdfast-bench scaling
  holdfast-bench scaling --only 3x0.5 --benches startrun,reads --clients 64`,
		flags: []string{"benches", "cgroup", "clients", "connections", "watchers", "runs", "rounds", "slice"},
		defaults: func(o *options) {
			o.rounds, o.slice, o.watchers, o.runs, o.clients = 5, time.Second, 1000, 500, []int{1, 64, 256}
			o.benches = []string{"startrun", "reads", "watch", "steps"}
		},
		check: func(o *options) error {
			for _, name := range o.benches {
				if !slices.Contains(scenarioNames(), name) {
					return fmt.Errorf("set --benches to some of %s, not %q", strings.Join(scenarioNames(), ", "), name)
				}
			}
			return nil
		},
	}
	for _, u := range []setup{{3, 0.5}, {3, 1}, {5, 0.5}, {5, 1}} {
		b.parts = append(b.parts, part{u.name(), fmt.Sprintf("%d peers with %g of a core each", u.peers, u.share), u.run})
	}
	return b
}

// run runs the chosen scenarios.
func (u setup) run(ctx context.Context, s *session) error {
	if have := float64(runtime.NumCPU()); u.needs() > have {
		s.report.Note("%s was left out: it needs %g cores, this machine has %g", u.name(), u.needs(), have)
		return nil
	}
	for _, sc := range scenarios() {
		if !slices.Contains(s.benches, sc.name) {
			continue
		}
		own := *s
		own.dir = filepath.Join(s.dir, sc.name)
		if err := sc.in(ctx, &own, localcluster.Config{Peers: u.peers}, u.limited); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return nil
}

// limited limits the processes to their shares while the contenders run.
func (u setup) limited(ctx context.Context, l *lab, all []*contest.Contender) (err error) {
	dirs := cores.Hierarchies()
	if l.cgroup != "" {
		dirs = []string{l.cgroup}
	}
	groups, err := cores.New(dirs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, groups.Close()) }()
	rest, err := proc.Family(os.Getpid())
	if err != nil {
		return err
	}
	for _, p := range l.cluster.Peers() {
		if err := groups.Put(p.ID, u.share, p.PID()); err != nil {
			return err
		}
		rest = slices.DeleteFunc(rest, func(pid int) bool { return pid == p.PID() })
	}
	driver := float64(runtime.NumCPU()) - float64(u.peers)*u.share
	if err := groups.Put("driver", driver, rest...); err != nil {
		return err
	}
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		l.say("%s, %s: %d rounds of %s", u.name(), c.Name, l.rounds, l.slice)
		out, err := contest.Interleave(ctx, l.rounds, l.slice, []*contest.Contender{c})
		if err != nil {
			return err
		}
		o := out[c.Name]
		used := func(name string, share float64, of int) float64 { // µs an operation times operations a second
			return 100 * report.Median(o.CPU[name]) * report.Median(o.Pace) / 1e6 / share / float64(of)
		}
		l.report.Scale(report.Scale{Setup: u.name(), Bench: c.Name, Rate: report.Median(o.Rate),
			P50: report.Quantile(report.Millis(o.Latencies), 0.5), P99: report.Quantile(report.Millis(o.Latencies), 0.99),
			CPU: report.Median(o.CPU["servers"]), Leader: used("leader", u.share, 1),
			Follower: used("followers", u.share, len(followers)), Driver: used(contest.DriverCPU, driver, 1)})
	}
	return l.stillLeads(ctx, leader)
}
