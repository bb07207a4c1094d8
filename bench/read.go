package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The goals of docs/performance.md for linearizable reads on a follower.
const (
	goalRead, goalReadWrites = 0.6, 0.55 // rate against stale reads, without and with writes
	goalForwarded            = 5         // % of them, with writes
	goalReadP50              = 5         // ms, with writes, at a fixed rate
	readers                  = 64
)

const (
	readFleet   = 1000 // machines, or keys of etcd
	readWriters = 16
)

func read() benchmark {
	return benchmark{
		name: "read", short: "Measure reads on a follower, compared with etcd and an empty gRPC handler",
		long: `Measure GetMachine on a follower with 64 clients that call without a pause. In
turn: linearizable reads, stale reads, reads on a follower of etcd (Range,
linearizable by default; --vs etcd), and a gRPC handler with TLS in its own
process that answers the same machine from memory (--vs grpc). First without
writes, then while 16 clients change machines, and there also at a fixed rate of
1,000 reads a second, whether earlier ones are answered or not.`,
		example: `  holdfast-bench read
  holdfast-bench read --only quiet --vs etcd -o json`,
		parts: []part{
			{"quiet", "reads on a follower, no writes",
				inLabOf(localcluster.Config{}, func(ctx context.Context, l *lab) error { return reads(ctx, l, "quiet", 0) })},
			{"writes", "reads on a follower, with writes",
				inLabOf(localcluster.Config{},
					func(ctx context.Context, l *lab) error { return reads(ctx, l, "writes", readWriters) })},
		},
		flags: []string{"connections", "vs", "etcd", "rounds", "slice"},
	}
}

// getMachine returns a call that reads a random machine, with a stale read if stale is set.
func getMachine(stale bool) func(context.Context, grpc.ClientConnInterface) error {
	return func(ctx context.Context, conn grpc.ClientConnInterface) error {
		if stale {
			ctx = metadata.AppendToOutgoingContext(ctx, client.HeaderConsistency, "stale")
		}
		_, err := holdfastv1.NewMachineServiceClient(conn).GetMachine(ctx,
			&holdfastv1.GetMachineRequest{MachineId: anyMachine(readFleet)})
		return err
	}
}

// relabel changes a label of a random machine.
func relabel(ctx context.Context, conn grpc.ClientConnInterface) error {
	m := &holdfastv1.Machine{MachineId: anyMachine(readFleet), Labels: map[string]string{"seen": fmt.Sprint(rand.Uint32())}} //nolint:gosec // no secret
	_, err := holdfastv1.NewMachineServiceClient(conn).UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: m,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.seen"}}})
	return err
}

// reads measures one part. The writers write during all slices.
func reads(ctx context.Context, l *lab, id string, writers int) (err error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	if err := (&machinePool{lab: l}).fill(ctx, readFleet); err != nil {
		return err
	}
	var all []*contest.Contender
	add := func(name string, c *contest.Calls, err error, pids ...int) error {
		if err == nil {
			all = append(all, &contest.Contender{Name: name, Load: c, Procs: map[string][]int{"server": pids}})
		}
		return err
	}
	defer func() {
		for _, c := range all {
			if c, ok := c.Load.(*contest.Calls); ok {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	at, creds := []string{followers[0].GRPCAddr}, l.cluster.Credentials()
	for _, name := range []string{"linearizable", "stale"} {
		c, err := contest.NewCalls(l.conns, creds, at, getMachine(name == "stale"))
		if err := add(name, c, err, followers[0].PID()); err != nil {
			return err
		}
	}
	var other *rival.Etcd
	if writers == 0 {
		if other, err = l.rivalEtcd(ctx); err != nil {
			return err
		}
	}
	if other != nil {
		defer func() { err = errors.Join(err, other.Close()) }()
		member, err := fillEtcd(ctx, other, readFleet)
		if err != nil {
			return err
		}
		c, err := contest.NewCalls(l.conns, other.Creds, []string{member.Addr},
			func(ctx context.Context, conn grpc.ClientConnInterface) error {
				return rival.EtcdGet(ctx, conn, anyMachine(readFleet))
			})
		if err := add(vsEtcd, c, err, member.Program.PID()); err != nil {
			return err
		}
	}
	if l.against(vsGRPC) {
		cert, key := l.cluster.Files().Peer(followers[0].ID)
		p, err := rival.Start(l.self, rival.TargetVerb, "--grpc", "--cert", cert, "--key", key)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		c, err := contest.NewCalls(l.conns, creds, []string{p.Addr}, getMachine(false))
		if err := add(vsGRPC, c, err, p.PIDs...); err != nil {
			return err
		}
	}
	if writers > 0 {
		c, err := contest.NewCalls(l.conns, creds, at, getMachine(false))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		all = append(all, &contest.Contender{Name: "paced", Load: &contest.Paced{Calls: c, Rate: pacedReads},
			Procs: map[string][]int{"server": {followers[0].PID()}}})
	}
	served, err := l.readsServed(ctx, followers[0])
	if err != nil {
		return err
	}
	l.say("%d rounds of %s each: %d clients that read, %d that write", l.rounds, l.slice, l.conns, writers)
	var out map[string]*contest.Outcome
	written, err := l.meanwhile(ctx, leader, writers, func(ctx context.Context) (err error) {
		out, err = contest.Interleave(ctx, l.rounds, l.slice, all)
		return err
	})
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	now, err := l.readsServed(ctx, followers[0])
	if err != nil {
		return err
	}
	reportReads(l.report, id, l.conns, writers, out)
	var forwarded *report.Goal
	if writers > 0 && l.conns == readers {
		forwarded = report.AtMost(goalForwarded)
	}
	l.report.Add("read."+id+".forwarded", "linearizable reads that the follower forwarded to the leader",
		forwardedShare(served, now), "%", forwarded)
	if writers > 0 {
		l.report.Add("read.writes.rate", "writes meanwhile", written, "/s", nil)
	}
	return nil
}

// meanwhile runs do while clients change machines on the leader, and returns their writes per
// second. A failed write ends it.
func (l *lab) meanwhile(
	ctx context.Context, leader *localcluster.Peer, writers int, do func(context.Context) error,
) (rate float64, err error) {
	if writers == 0 {
		return 0, do(ctx)
	}
	var done atomic.Int64
	var over atomic.Bool
	write := func(ctx context.Context, conn grpc.ClientConnInterface) error {
		if over.Load() {
			return contest.ErrEnough
		}
		done.Add(1)
		return relabel(ctx, conn)
	}
	w, err := contest.NewCalls(writers, l.cluster.Credentials(), []string{leader.GRPCAddr}, write)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := w.Run(ctx, time.Hour)
		return err
	})
	g.Go(func() error {
		defer over.Store(true)
		return do(ctx)
	})
	err = g.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// fillEtcd writes n keys and returns a follower.
func fillEtcd(ctx context.Context, e *rival.Etcd, n int) (*rival.Member, error) {
	lead, err := e.Leader(ctx)
	if err != nil {
		return nil, err
	}
	value := []byte(strings.Repeat("x", etcdValue))
	var next atomic.Int64
	c, err := contest.NewCalls(contest.MaxConns, e.Creds, []string{lead.Addr},
		func(ctx context.Context, conn grpc.ClientConnInterface) error {
			i := int(next.Add(1)) - 1
			if i >= n {
				return contest.ErrEnough
			}
			return rival.EtcdCommit(ctx, conn, rival.EtcdIfNew(nil, []string{machineID(i)}, value))
		})
	if err != nil {
		return nil, err
	}
	if _, err := c.Run(ctx, readyTimeout); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, m := range e.Members {
		if m != lead {
			return m, c.Close()
		}
	}
	return lead, c.Close()
}

// reportReads adds the figures of a part to the report.
func reportReads(r *report.Report, part string, clients, writers int, out map[string]*contest.Outcome) {
	id, with := "read."+part, fmt.Sprintf(", %d clients", clients)
	fraction := report.AtLeast(goalRead)
	if writers > 0 {
		with, fraction = with+" and writes", report.AtLeast(goalReadWrites)
	}
	if clients != readers {
		fraction = nil
		r.Note("the goals of reads are for %d clients", readers)
	}
	us := out["linearizable"]
	r.Add(id+".vs_stale", "reads on a follower, linearizable : stale"+with, report.Ratio(us.Rate, out["stale"].Rate), "x",
		fraction)
	if them := out[vsEtcd]; them != nil {
		r.Add(id+".vs_etcd", "reads on a follower, linearizable : etcd's"+with, report.Ratio(us.Rate, them.Rate), "x", nil)
		r.Add(id+".cpu_vs_etcd", "processor time of the follower per linearizable read : etcd's"+with,
			report.Ratio(us.CPU["server"], them.CPU["server"]), "x", nil)
		r.Add(id+".etcd_rate", "reads of etcd on a follower"+with, report.Median(them.Rate), "/s", nil)
	}
	if them := out[vsGRPC]; them != nil {
		r.Add(id+".stale_vs_grpc", "reads on a follower, stale : an empty gRPC handler"+with,
			report.Ratio(out["stale"].Rate, them.Rate), "x", nil)
		r.Add(id+".grpc_rate", "an empty gRPC handler"+with, report.Median(them.Rate), "/s", nil)
	}
	r.Add(id+".p50", "linearizable read on a follower, p50"+with,
		report.Quantile(report.Millis(us.Latencies), 0.5), "ms", nil)
	r.Add(id+".p99", "the same, p99", report.Quantile(report.Millis(us.Latencies), 0.99), "ms", nil)
	if paced := out["paced"]; paced != nil {
		at := fmt.Sprintf("linearizable read on a follower at %s a second, with writes: ", report.Thousands(pacedReads))
		r.Add(id+".paced_p50", at+"p50, from the due time", report.Quantile(report.Millis(paced.Latencies), 0.5), "ms",
			report.AtMost(goalReadP50))
		r.Add(id+".paced_p99", "the same, p99", report.Quantile(report.Millis(paced.Latencies), 0.99), "ms", nil)
		r.Add(id+".paced_cpu", at+"processor time of the follower", report.Median(paced.CPU["server"]), "µs", nil)
	}
	r.Add(id+".rate", "linearizable reads on a follower"+with, report.Median(us.Rate), "/s", nil)
	r.Add(id+".stale_rate", "stale reads on a follower"+with, report.Median(out["stale"].Rate), "/s", nil)
	r.Add(id+".cpu", "processor time of the follower per linearizable read"+with, report.Median(us.CPU["server"]), "µs",
		nil)
}
