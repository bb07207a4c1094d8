package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/internal/bench/load"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// The goals of docs/performance.md for keepalives taken by a follower.
const (
	goalVsEmpty = 0.75
	goalVsRedis = 7
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
	if err := wait.Sleep(ctx, lookedAt(len(agents))); err != nil { // or that is measured, too
		return err
	}
	follower := followers[0]
	all := []*contender{{name: "follower", procs: map[string][]int{"follower": {follower.PID()},
		"leader": {leader.PID()}}}}
	targets := []load.Target{l.target(follower)}
	cert, key := l.cluster.Files().Peer(follower.ID)
	secure := []string{"--cert", cert, "--key", key}
	rivals := []opponent{
		{"empty TLS", l.self, append([]string{targetVerb}, secure...)},
		{"empty", l.self, []string{targetVerb}},
	}
	if gateway, why := l.redis(); why == "" {
		rivals = append(rivals, opponent{"redis TLS", gateway,
			append([]string{"--dir", filepath.Join(l.dir, "redis")}, secure...)})
	} else {
		l.report.note("nothing was compared with Redis: %s", why)
	}
	for _, r := range rivals {
		t := load.Target{}
		if r.name != "empty" {
			t.TLS = targets[0].TLS
		}
		p, err := startRival(r.program, r.args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		t.Addr = p.addr
		targets = append(targets, t)
		all = append(all, &contender{name: r.name, procs: map[string][]int{"server": p.pids}})
	}
	for i, c := range all {
		press, err := newLoad(ctx, targets[i], l.conns, agents)
		if err != nil {
			return err
		}
		defer press.close()
		c.load = press
	}
	l.say("%d rounds of %s each: %s keepalives at a time to a follower, and to what it is compared with", l.rounds,
		l.slice, thousands(int64(l.conns)))
	out, err := interleave(ctx, l.rounds, l.slice, all)
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
func compare(r *report, out map[string]*outcome) {
	us, vsEmpty := out["follower"], out["empty TLS"]
	r.add("http.vs_empty", "keepalives through a follower : empty net/http handler, both with TLS",
		ratio(us.rate, vsEmpty.rate), "x", atLeast(goalVsEmpty))
	redis := out["redis TLS"]
	if redis != nil {
		r.add("http.vs_redis", "keepalives through a follower : gateway with Redis, both with TLS",
			ratio(us.rate, redis.rate), "x", atLeast(goalVsRedis))
	}
	r.add("http.vs_empty_plain", "keepalives through a follower with TLS : empty net/http handler without",
		ratio(us.rate, out["empty"].rate), "x", nil)
	r.add("http.rate", "keepalives through a follower, TLS", median(us.rate), "/s", nil)
	r.add("http.empty_rate", "empty net/http handler, TLS", median(vsEmpty.rate), "/s", nil)
	r.add("http.empty_plain_rate", "empty net/http handler, no TLS", median(out["empty"].rate), "/s", nil)
	if redis != nil {
		r.add("http.redis_rate", "gateway with Redis, TLS", median(redis.rate), "/s", nil)
	}
	r.add("http.p50", "keepalive through a follower, p50", quantile(millis(us.latencies), 0.5), "ms", nil)
	r.add("http.p99", "keepalive through a follower, p99", quantile(millis(us.latencies), 0.99), "ms", nil)
	r.add("http.empty_p99", "empty net/http handler, TLS, p99", quantile(millis(vsEmpty.latencies), 0.99), "ms", nil)
	r.add("http.cpu_follower", "processor time a keepalive, follower", median(us.cpu["follower"]), "µs", nil)
	r.add("http.cpu_leader", "processor time a keepalive, leader", median(us.cpu["leader"]), "µs", nil)
	r.add("http.cpu_empty", "processor time a request, empty handler, TLS", median(vsEmpty.cpu["server"]), "µs", nil)
	if redis != nil {
		r.add("http.cpu_redis", "processor time a keepalive, gateway and Redis", median(redis.cpu["server"]), "µs", nil)
	}
	r.add("http.cpu_driver", "processor time a keepalive, load driver", median(us.cpu[driverCPU]), "µs", nil)
}
