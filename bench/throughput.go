package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// What the goals of docs/performance.md and of the reconnect storm are about.
const (
	fleetAgents    = 100_000
	fleetKeepalive = time.Minute
	stormAgents    = 10_000
	freshAgents    = 2048
)

// keepalive measures what it costs that machines report for themselves.
func keepalive() benchmark {
	return benchmark{
		name: "keepalive", short: "Measure keepalives: the rate, the cost of a fleet, and a reconnect of all agents",
		long: `Measure keepalives of agents (machine registration API, HTTP with TLS and tokens)
in four parts:

  http   keepalives through a follower without a pause, each confirmed by the
         leader; in turn with an empty net/http handler, and with a gateway that
         stores machines in Redis (go-redis, redislock; lock, HSET, EXPIRE). All
         use the same connections.
  fresh  keepalives through a follower right after the agents have registered, and
         again after all machines were polled
  fleet  100,000 agents with one keepalive a minute, spread over the peers:
         entries of the Raft log, processor time, memory
  storm  10,000 agents that reconnect within a second, after all peers were
         killed, and after the leader was`,
		example: `  holdfast-bench keepalive
  holdfast-bench keepalive --only fleet --agents 20000 --keepalive 20s --duration 1m
  holdfast-bench keepalive --goals --json`,
		parts: []part{
			{"http", "keepalives through a follower, compared with others", inLab(throughput)},
			{"fresh", "keepalives right after registration, compared with later ones", inLab(fresh)},
			{"fleet", "a fleet in its steady state", inLab(steady)},
			{"storm", "all agents reconnect at once", inLab(storm)},
		},
		flags: []string{"agents", "fresh", "keepalive", "settle", "duration", "storm", "redis-gateway", "connections",
			"rounds", "slice"},
	}
}

// The goals of docs/performance.md for keepalives taken by a follower.
const (
	goalVsEmpty = 0.4
	goalVsRedis = 2
)

// perConn is how many agents take turns on a connection of the load driver.
const perConn = 32

// opponent is a program that a peer is compared with.
type opponent struct {
	name, program string
	args          []string
}

// throughput has a follower take keepalives as fast as it answers them, in turn with an HTTP server
// that does nothing and with a gateway that keeps its machines in Redis.
func throughput(ctx context.Context, l *lab) (err error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	agents, err := l.machineAgents(ctx, l.conns*perConn)
	if err != nil {
		return err
	}
	if _, err := l.register(ctx, agents); err != nil {
		return err
	}
	if err := wait.Sleep(ctx, firstPollsTime(len(agents))); err != nil { // or that is measured, too
		return err
	}
	follower := followers[0]
	all := []*contest.Contender{{Name: "follower", Procs: map[string][]int{"follower": {follower.PID()},
		"leader": {leader.PID()}}}}
	targets := []load.Target{l.target(follower)}
	cert, key := l.cluster.Files().Peer(follower.ID)
	secure := []string{"--cert", cert, "--key", key}
	rivals := []opponent{
		{"empty TLS", l.self, append([]string{rival.TargetVerb}, secure...)},
		{"empty", l.self, []string{rival.TargetVerb}},
	}
	if gateway, why := l.redis(); why == "" {
		rivals = append(rivals, opponent{"redis TLS", gateway,
			append([]string{"--dir", filepath.Join(l.dir, "redis")}, secure...)})
	} else {
		l.report.Note("nothing was compared with Redis: %s", why)
	}
	for _, r := range rivals {
		t := load.Target{}
		if r.name != "empty" {
			t.TLS = targets[0].TLS
		}
		p, err := rival.Start(r.program, r.args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		t.Addr = p.Addr
		targets = append(targets, t)
		all = append(all, &contest.Contender{Name: r.name, Procs: map[string][]int{"server": p.PIDs}})
	}
	for i, c := range all {
		press, err := load.NewPressure(ctx, targets[i], l.conns, agents)
		if err != nil {
			return err
		}
		defer press.Close()
		c.Load = press
	}
	l.say("%d rounds of %s each: %s keepalives at a time to a follower, and to what it is compared with", l.rounds,
		l.slice, report.Thousands(int64(l.conns)))
	out, err := contest.Interleave(ctx, l.rounds, l.slice, all)
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	compare(l.report, out)
	return nil
}

// redis returns the gateway that keeps its machines in Redis, or why there is none.
func (l *lab) redis() (program, why string) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", "there is no redis-server on this machine (apt-get install redis-server)"
	}
	if program = l.redisGateway; program == "" {
		program = filepath.Join(filepath.Dir(l.binary), "redisgateway")
	}
	if _, err := os.Stat(program); err != nil {
		return "", "there is no " + program + " (make build-redisgateway)"
	}
	return program, ""
}

// compare puts what the slices have shown into the report.
func compare(r *report.Report, out map[string]*contest.Outcome) {
	us, vsEmpty := out["follower"], out["empty TLS"]
	r.Add("http.vs_empty", "keepalives through a follower : empty net/http handler, both with TLS",
		report.Ratio(us.Rate, vsEmpty.Rate), "x", report.AtLeast(goalVsEmpty))
	redis := out["redis TLS"]
	if redis != nil {
		r.Add("http.vs_redis", "keepalives through a follower : gateway with Redis, both with TLS",
			report.Ratio(us.Rate, redis.Rate), "x", report.AtLeast(goalVsRedis))
	}
	r.Add("http.vs_empty_plain", "keepalives through a follower with TLS : empty net/http handler without",
		report.Ratio(us.Rate, out["empty"].Rate), "x", nil)
	r.Add("http.rate", "keepalives through a follower, TLS", report.Median(us.Rate), "/s", nil)
	r.Add("http.empty_rate", "empty net/http handler, TLS", report.Median(vsEmpty.Rate), "/s", nil)
	r.Add("http.empty_plain_rate", "empty net/http handler, no TLS", report.Median(out["empty"].Rate), "/s", nil)
	if redis != nil {
		r.Add("http.redis_rate", "gateway with Redis, TLS", report.Median(redis.Rate), "/s", nil)
	}
	r.Add("http.p50", "keepalive through a follower, p50", report.Quantile(report.Millis(us.Latencies), 0.5), "ms", nil)
	r.Add("http.p99", "keepalive through a follower, p99", report.Quantile(report.Millis(us.Latencies), 0.99), "ms", nil)
	r.Add("http.empty_p99", "empty net/http handler, TLS, p99",
		report.Quantile(report.Millis(vsEmpty.Latencies), 0.99), "ms", nil)
	r.Add("http.cpu_follower", "processor time a keepalive, follower", report.Median(us.CPU["follower"]), "µs", nil)
	r.Add("http.cpu_leader", "processor time a keepalive, leader", report.Median(us.CPU["leader"]), "µs", nil)
	r.Add("http.cpu_empty", "processor time a request, empty handler, TLS",
		report.Median(vsEmpty.CPU["server"]), "µs", nil)
	if redis != nil {
		r.Add("http.cpu_redis", "processor time a keepalive, gateway and Redis",
			report.Median(redis.CPU["server"]), "µs", nil)
	}
	r.Add("http.cpu_driver", "processor time a keepalive, load driver",
		report.Median(us.CPU[contest.DriverCPU]), "µs", nil)
}
