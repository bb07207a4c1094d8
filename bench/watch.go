package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/proc"
	"github.com/holdfast-metal/holdfast/bench/report"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The goal of docs/performance.md for watchers on one peer.
const (
	goalWatch     = 1000 // ms, p99 of the last watcher that receives an event
	watchWatchers = 5000
	watchEvents   = 100
	watchPerConn  = 250
)

func watch() benchmark {
	return benchmark{
		name: "watch", short: "Measure the time until all of 5,000 watchers of one peer have an event",
		long: `Open 5,000 streams of runs to one follower, with 250 streams per connection. Then
start 100 runs in turn, and measure the time from the call until each watcher has
the event, and until the last one has it.`,
		example: `  holdfast-bench watch
  holdfast-bench watch --watchers 500 -o json`,
		parts: []part{{"fanout", "watchers on one follower", inHardware(
			[]string{"--latency", "1h"}, []string{"--max-active-runs", "1", "--poll-calls-per-second", "1"}, fanOut)}},
		flags: []string{"watchers"},
	}
}

// receipts counts the watchers that have received the current event.
type receipts struct {
	mu        sync.Mutex
	machine   string
	began     time.Time
	missing   int
	latencies []time.Duration
	all       chan struct{} // closed when all watchers have the event
}

// begin counts the event of a run on a machine.
func (c *receipts) begin(machine string, watchers int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine, c.missing, c.began, c.all = machine, watchers, time.Now(), make(chan struct{})
	return c.all
}

// receive is called by each watcher for each event. The first event of a run counts.
func (c *receipts) receive(ev *holdfastv1.RunEvent) {
	if run := ev.GetSnapshot(); run.GetPhase() == holdfastv1.Run_PENDING {
		now := time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		if run.GetMachineId() != c.machine || c.missing == 0 {
			return
		}
		c.latencies = append(c.latencies, now.Sub(c.began))
		if c.missing--; c.missing == 0 {
			close(c.all)
		}
	}
}

// startOne starts a run and returns the time until all watchers have its event.
func (c *receipts) startOne(
	ctx context.Context, at *contest.Calls, machines *machinePool, watchers int,
) (time.Duration, error) {
	all := c.begin(machineID(int(machines.taken.Load())), watchers)
	if err := at.Once(ctx); err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(ctx, load.CallTimeout)
	defer stop()
	select {
	case <-all:
		return time.Since(c.began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d watchers have no event after %s", c.missing, watchers, load.CallTimeout)
	}
}

// fanOut measures the time until all watchers have an event.
func fanOut(ctx context.Context, l *lab) (err error) {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	machines := &machinePool{lab: l}
	if err := machines.fill(ctx, watchEvents+1); err != nil {
		return err
	}
	at, err := contest.NewCalls(1, l.cluster.Credentials(), []string{leader.GRPCAddr}, machines.startRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	if err := at.Once(ctx); err != nil { // it never ends, so the other runs stay queued
		return err
	}
	c := &receipts{}
	running, stop := context.WithCancel(ctx)
	defer stop()
	l.say("opening %s streams to %s", report.Thousands(int64(l.watchers)), followers[0].ID)
	g, err := l.openWatchers(running, followers[0].GRPCAddr, c)
	if err != nil {
		stop()
		return errors.Join(err, g.Wait())
	}
	before, err := proc.ProcessorTime(followers[0].PID())
	if err != nil {
		return err
	}
	var last []time.Duration
	for range watchEvents {
		took, err := c.startOne(ctx, at, machines, l.watchers)
		if err != nil {
			return err
		}
		last = append(last, took)
	}
	after, err := proc.ProcessorTime(followers[0].PID())
	if err != nil {
		return err
	}
	stop()
	if err := g.Wait(); err != nil {
		return err
	}
	r, events := l.report, float64(watchEvents*l.watchers)
	var wanted *report.Goal
	if l.watchers == watchWatchers {
		wanted = report.AtMost(goalWatch)
	}
	who := fmt.Sprintf("%s watchers on one follower: ", report.Thousands(int64(l.watchers)))
	r.Add("watch.all_p99", who+"from StartRun until all have its event, p99",
		report.Quantile(report.Millis(last), 0.99), "ms",
		wanted)
	r.Add("watch.all_p50", "the same, p50", report.Quantile(report.Millis(last), 0.5), "ms", nil)
	r.Add("watch.each_p50", who+"from StartRun until one has its event, p50",
		report.Quantile(report.Millis(c.latencies), 0.5), "ms", nil)
	r.Add("watch.cpu", "processor time of the follower an event and watcher",
		float64((after-before).Microseconds())/events, "µs", nil)
	return nil
}

// openWatchers opens streams and returns the group that reads them until ctx ends. If it returns no
// error, all streams are open.
func (l *lab) openWatchers(ctx context.Context, addr string, c *receipts) (*errgroup.Group, error) {
	g := new(errgroup.Group)
	var conn *grpc.ClientConn
	for i := range l.watchers {
		if i%watchPerConn == 0 {
			var err error
			if conn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(l.cluster.Credentials())); err != nil {
				return g, fmt.Errorf("connect to %s: %w", addr, err)
			}
			closing := conn
			g.Go(func() error {
				<-ctx.Done()
				return closing.Close()
			})
		}
		stream, err := holdfastv1.NewRunServiceClient(conn).WatchRuns(ctx, &holdfastv1.WatchRunsRequest{})
		if err != nil {
			return g, fmt.Errorf("watch runs: %w", err)
		}
		if _, err := stream.Recv(); err != nil { // the existing run: the stream is open
			return g, fmt.Errorf("watch runs: %w", err)
		}
		g.Go(func() error {
			for {
				ev, err := stream.Recv()
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return fmt.Errorf("watch runs: %w", err)
				}
				c.receive(ev)
			}
		})
	}
	return g, nil
}
