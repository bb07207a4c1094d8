package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/outage"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The goals of docs/performance.md for writes after the leader is killed, against etcd, and for a
// leader that stops after SIGTERM.
const (
	goalBackP50, goalBackMax = 1.0 / 20, 1.0 / 5
	goalHandover             = 50 // ms
)

// failoverWriters and failoverReaders are the clients besides the prober, distributed among all
// members.
const failoverWriters, failoverReaders = 8, 8

func failover() benchmark {
	return benchmark{
		name: "failover", short: "Measure how long writes and reads fail after the leader is killed, compared with etcd",
		long: `Kill the leader with SIGKILL repeatedly while 8 clients write and 8 read. Measure
the time until another peer answers the first write, and the first linearizable
read, that began after the kill. In turn with etcd in its default configuration
(--vs etcd). Then stop the leader with SIGTERM as often, and measure the longest
time without an answered write.`,
		example: `  holdfast-bench failover
  holdfast-bench failover --kills 5 --only kill -o json`,
		parts: []part{
			{"kill", "the leader is killed, compared with etcd", inLabOf(localcluster.Config{}, kills)},
			{"stop", "the leader is asked to stop", inLabOf(localcluster.Config{}, stops)},
		},
		flags: []string{"kills", "vs", "etcd"},
	}
}

// probe is a write that changes nothing.
func probe(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := holdfastv1.NewOperatorServiceClient(conn).Probe(ctx, &holdfastv1.ProbeRequest{})
	return err
}

// kills kills the leaders of Holdfast and of etcd in turn.
func kills(ctx context.Context, l *lab) (err error) {
	if err := (&machinePool{lab: l}).fill(ctx, readFleet); err != nil {
		return err
	}
	other, err := l.rivalEtcd(ctx)
	if err != nil {
		return err
	}
	if other != nil {
		defer func() { err = errors.Join(err, other.Close()) }()
		if _, err := fillEtcd(ctx, other, readFleet); err != nil {
			return err
		}
	}
	var writes, reads, theirs []time.Duration
	for i := range l.kills {
		l.say("kill %d of %d", i+1, l.kills)
		w, r, err := l.killLeader(ctx)
		if err != nil {
			return err
		}
		writes, reads = append(writes, w), append(reads, r)
		if other != nil {
			t, err := killEtcdLeader(ctx, other)
			if err != nil {
				return err
			}
			theirs = append(theirs, t)
		}
	}
	p50 := func(t []time.Duration) float64 { return report.Quantile(report.Millis(t), 0.5) }
	most := func(t []time.Duration) float64 { return report.Quantile(report.Millis(t), 1) }
	r := l.report
	if other != nil {
		r.Add("failover.p50_vs_etcd", "writes back after the leader was killed : etcd, p50", p50(writes)/p50(theirs),
			"x", report.AtMost(goalBackP50))
		r.Add("failover.max_vs_etcd", "the same, longest", most(writes)/most(theirs), "x", report.AtMost(goalBackMax))
		r.Add("failover.etcd_p50", fmt.Sprintf("writes of etcd back, p50 of %d kills", l.kills), p50(theirs), "ms", nil)
		r.Add("failover.etcd_max", "the same, longest", most(theirs), "ms", nil)
	}
	r.Add("failover.writes_p50", fmt.Sprintf("writes back after the leader was killed, p50 of %d kills", l.kills),
		p50(writes), "ms", nil)
	r.Add("failover.writes_max", "the same, longest", most(writes), "ms", nil)
	r.Add("failover.reads_p50", "linearizable reads back after the leader was killed, p50", p50(reads), "ms", nil)
	r.Add("failover.reads_max", "the same, longest", most(reads), "ms", nil)
	return nil
}

// killLeader kills the leader of Holdfast and returns the times without writes and without reads.
// It then restarts the peer.
func (l *lab) killLeader(ctx context.Context) (writes, reads time.Duration, err error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return 0, 0, err
	}
	var left []string
	for _, p := range followers {
		left = append(left, p.GRPCAddr)
	}
	creds := l.cluster.Credentials()
	w, r := &outage.Prober{Addrs: left, Creds: creds, Call: probe}, &outage.Prober{Addrs: left, Creds: creds,
		Call: getMachine(false)}
	err = l.underLoad(ctx, func() error {
		killed := make(chan struct{})
		var at outage.Event
		var g errgroup.Group
		g.Go(func() error {
			o, err := r.Measure(ctx, func() (outage.Event, error) {
				<-killed
				return at, nil
			})
			reads = o.Back
			return err
		})
		o, err := w.Measure(ctx, func() (_ outage.Event, err error) {
			defer close(killed)
			at, err = outage.Now(leader.Kill)
			return at, err
		})
		writes = o.Back
		return errors.Join(err, g.Wait())
	})
	if err != nil {
		return 0, 0, err
	}
	return writes, reads, l.revive(ctx, leader)
}

// revive starts a peer and waits until all are ready.
func (l *lab) revive(ctx context.Context, p *localcluster.Peer) error {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	return errors.Join(p.Start(ctx), l.cluster.WaitReady(ctx))
}

// underLoad runs do while clients of all peers write and read. Their calls may fail.
func (l *lab) underLoad(ctx context.Context, do func() error) error {
	return outage.Noise{Creds: l.cluster.Credentials(), Addrs: l.cluster.Addrs(), Writers: failoverWriters,
		Readers: failoverReaders, Write: relabel, Read: getMachine(false)}.During(ctx, do)
}

// killEtcdLeader kills the leader of etcd and returns the time without writes.
func killEtcdLeader(ctx context.Context, e *rival.Etcd) (time.Duration, error) {
	lead, err := e.Leader(ctx)
	if err != nil {
		return 0, err
	}
	var left, all []string
	for _, m := range e.Members {
		if all = append(all, m.Addr); m != lead {
			left = append(left, m.Addr)
		}
	}
	value := []byte(strings.Repeat("x", etcdValue))
	write := func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return rival.EtcdCommit(ctx, conn, rival.EtcdIfNew(nil, []string{anyMachine(readFleet)}, value))
	}
	w := &outage.Prober{Addrs: left, Creds: e.Creds, Call: write}
	var o outage.Outage
	err = outage.Noise{Creds: e.Creds, Addrs: all, Writers: failoverWriters,
		Readers: failoverReaders, Write: write, Read: func(ctx context.Context, conn grpc.ClientConnInterface) error {
			return rival.EtcdGet(ctx, conn, anyMachine(readFleet))
		}}.During(ctx, func() (err error) {
		o, err = w.Measure(ctx, func() (outage.Event, error) { return outage.Now(lead.Program.Kill) })
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := lead.Start(); err != nil {
		return 0, err
	}
	back := &outage.Prober{Addrs: []string{lead.Addr}, Creds: e.Creds, Call: write} // until it serves again
	_, err = back.Measure(ctx, func() (outage.Event, error) { return outage.Now(func() error { return nil }) })
	return o.Back, err
}

// stops stops the leader with SIGTERM.
func stops(ctx context.Context, l *lab) error {
	if err := (&machinePool{lab: l}).fill(ctx, readFleet); err != nil {
		return err
	}
	var gaps []time.Duration
	for range l.kills {
		leader, followers, err := l.roles(ctx)
		if err != nil {
			return err
		}
		var left []string
		for _, p := range followers {
			left = append(left, p.GRPCAddr)
		}
		w := &outage.Prober{Addrs: left, Creds: l.cluster.Credentials(), Call: probe}
		var o outage.Outage
		err = l.underLoad(ctx, func() (err error) {
			o, err = w.Measure(ctx, func() (outage.Event, error) {
				ctx, stop := context.WithTimeout(ctx, readyTimeout)
				defer stop()
				return outage.Now(func() error { return leader.Stop(ctx) })
			})
			return err
		})
		if err != nil {
			return err
		}
		if err := l.revive(ctx, leader); err != nil {
			return err
		}
		gaps = append(gaps, o.Gap)
	}
	l.report.Add("failover.stop_p50", fmt.Sprintf("no write answered while the leader stops (SIGTERM), p50 of %d",
		l.kills), report.Quantile(report.Millis(gaps), 0.5), "ms", report.AtMost(goalHandover))
	l.report.Add("failover.stop_max", "the same, longest", report.Quantile(report.Millis(gaps), 1), "ms", nil)
	return nil
}
