package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options is what a benchmark can be told. A benchmark takes what it knows.
type options struct {
	only     []string // parts; none: all
	json     bool
	output   string // the same in the words of other commands: text or json
	judge    bool   // a goal that was missed is an error
	dir      string
	keepDir  bool
	holdfast string        // path of the program
	patience float64       // of Raft: the factor of its timeouts
	logStore string        // of the peers: wal or boltdb
	rounds   int           // of slices
	slice    time.Duration // how long one is

	agents    int           // of the fleet
	keepalive time.Duration // between two keepalives of one agent of the fleet
	duration  time.Duration // of the steady state that is measured
	settle    time.Duration // before that; less than zero: until all machines have been polled once
	storm     int           // agents that come back at once
	fresh     int           // agents that have just registered
	conns     int           // of the load driver, where it asks as fast as it is answered

	vs           []string // what to compare with, where there is a choice
	redisGateway string   // a program; empty: beside this one
	etcd         string   // the same; empty: the one beside this one, else that of $PATH
	ironic       string   // a directory of programs; empty: $PATH

	clients  []int // how many ask at once, one figure each
	kills    int   // of the leader
	watchers int
	sizes    []int // of fleets, in machines
	runs     int   // how many are started

	ref       string   // a directory with another build
	goBenches string   // pattern
	benches   []string // of scaling
	cgroup    string
}

// defaultLogStore is the log store of a new data directory.
const defaultLogStore = "wal"

// defaults returns the sizes that the goals are for.
func defaults() options {
	return options{
		output: "text", patience: 1, logStore: defaultLogStore, rounds: 7, slice: 2 * time.Second,
		agents: fleetAgents, keepalive: fleetKeepalive, settle: -1, duration: 2 * time.Minute, storm: stormAgents,
		fresh: freshAgents, conns: 64,
		vs: []string{vsEtcd, vsGRPC, vsIronic}, clients: []int{1, 16, 64, 256, 1024}, kills: 15,
		watchers: watchWatchers, sizes: []int{10_000, 100_000}, runs: flightRuns,
		goBenches: "^Benchmark(StartRun|RunCommands)$", benches: scenarioNames(),
	}
}

// The values of --vs: systems to compare with.
const (
	vsEtcd   = "etcd"
	vsGRPC   = "grpc" // an empty gRPC handler
	vsIronic = "ironic"
	vsNone   = "none"
)

// commonFlags returns the names of the flags of all benchmarks.
func commonFlags() []string {
	return []string{"only", "json", "output", "goals", "dir", "keep-dir", "holdfast", "raft-multiplier", "log-store"}
}

// define returns all flags. The current options are their defaults.
func (o *options) define() *pflag.FlagSet {
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	fs.StringSliceVar(&o.only, "only", nil, "run these `parts` only")
	fs.BoolVar(&o.json, "json", false, "write the report as JSON")
	fs.StringVarP(&o.output, "output", "o", o.output, "`form` of the report: text or json")
	fs.BoolVar(&o.judge, "goals", o.judge, "print only figures that have a goal, and fail if one is missed")
	fs.StringVar(&o.dir, "dir", "",
		"empty or new `directory` for the peers' data and logs; it is kept (default: a temporary one)")
	fs.BoolVar(&o.keepDir, "keep-dir", false, "keep the peers' data and logs")
	fs.StringVar(&o.holdfast, "holdfast", "",
		"`program` that runs the peers (default: holdfast beside this one, else that of $PATH)")
	fs.Float64Var(&o.patience, "raft-multiplier", o.patience,
		"`factor` of Raft's timeouts: use more than 1 on a busy machine, where leaders change otherwise")
	fs.StringVar(&o.logStore, "log-store", o.logStore, "`store` of the peers' Raft logs: boltdb or wal")
	fs.IntVar(&o.rounds, "rounds", o.rounds, "number of measured `rounds` of slices")
	fs.DurationVar(&o.slice, "slice", o.slice, "`length` of a slice")

	fs.IntVar(&o.agents, "agents", o.agents, "`agents` of the fleet")
	fs.DurationVar(&o.keepalive, "keepalive", o.keepalive, "`time` between two keepalives of an agent")
	fs.DurationVar(&o.settle, "settle", o.settle,
		"`time` to wait before the measurement; negative: until all machines have been polled once, which takes "+
			"one second per 200")
	fs.DurationVar(&o.duration, "duration", o.duration, "`time` to measure when all agents are ready")
	fs.IntVar(&o.storm, "storm", o.storm, "number of `agents` that reconnect at the same time")
	fs.IntVar(&o.fresh, "fresh", o.fresh, "number of `agents` that have just registered")
	fs.IntVar(&o.conns, "connections", o.conns,
		"number of `connections` of the load driver in benchmarks without a fixed rate")

	fs.StringSliceVar(&o.vs, "vs", o.vs,
		"compare with `these` systems: etcd, grpc (an empty handler), ironic, or none")
	fs.StringVar(&o.redisGateway, "redis-gateway", "",
		"`program` of tools/redisgateway to compare with (default: redisgateway beside this one)")
	fs.StringVar(&o.etcd, "etcd", "",
		"etcd `program` to compare with (default: etcd beside this one, else that of $PATH)")
	fs.StringVar(&o.ironic, "ironic", "",
		"`directory` with the programs of OpenStack Ironic to compare with (default: those of $PATH)")

	fs.IntSliceVar(&o.clients, "clients", o.clients, "`numbers` of concurrent clients, one figure for each")
	fs.IntVar(&o.kills, "kills", o.kills, "`times` to kill the leader")
	fs.IntVar(&o.watchers, "watchers", o.watchers, "number of `streams` that watch runs on one peer")
	fs.IntSliceVar(&o.sizes, "machines", o.sizes, "`sizes` of fleets in machines, ascending")
	fs.IntVar(&o.runs, "runs", o.runs, "number of `runs` to start")
	fs.StringVar(&o.ref, "ref", "", "`directory` with the other build: holdfast and fsm.test")
	fs.StringVar(&o.goBenches, "go-bench", o.goBenches, "`pattern` of the Go benchmarks of package fsm")
	fs.StringSliceVar(&o.benches, "benches", o.benches, "run `these`: "+strings.Join(scenarioNames(), ", "))
	fs.StringVar(&o.cgroup, "cgroup", "",
		"`directory` in which to create control groups (default: the root of the hierarchy; needs root)")
	return fs
}

// check returns an error if an option has a value that cannot be measured.
func (o *options) check() error {
	atLeastOne := func(n int) bool { return n >= 1 }
	for _, v := range o.vs {
		if known := []string{vsEtcd, vsGRPC, vsIronic, vsNone}; !slices.Contains(known, v) {
			return fmt.Errorf("set --vs to some of %s, not %q", strings.Join(known, ", "), v)
		}
	}
	switch {
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("set --output to text or json, not %q", o.output)
	case o.logStore != "boltdb" && o.logStore != "wal":
		return fmt.Errorf("set --log-store to boltdb or wal, not %q", o.logStore)
	case o.agents < 1 || o.storm < 1 || o.fresh < 1 || o.conns < 1 || o.rounds < 1:
		return errors.New("set --agents, --storm, --fresh, --connections and --rounds to 1 or more")
	case o.kills < 1 || o.watchers < 1 || o.runs < 1:
		return errors.New("set --kills, --watchers and --runs to 1 or more")
	case len(o.clients) == 0 || slices.ContainsFunc(o.clients, func(n int) bool { return !atLeastOne(n) }):
		return errors.New("set --clients to numbers of 1 or more")
	case len(o.sizes) == 0 || !slices.IsSorted(o.sizes) || !atLeastOne(o.sizes[0]):
		return errors.New("set --machines to numbers of 1 or more, ascending")
	case o.keepalive < time.Second || o.duration < time.Second:
		return errors.New("set --keepalive and --duration to 1s or more")
	case o.patience <= 0:
		return errors.New("set --raft-multiplier to more than 0")
	case o.slice < 100*time.Millisecond:
		return errors.New("set --slice to 100ms or more: processor time is counted in steps of 10 ms")
	case o.keepalive > 4*time.Minute:
		return errors.New("set --keepalive to 4m or less: a machine is lost after 5 minutes")
	}
	return nil
}

// against reports whether --vs has this system.
func (o *options) against(name string) bool { return slices.Contains(o.vs, name) }
