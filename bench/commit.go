package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// etcdValue is the size of each value in etcd, in bytes: about that of a run.
const etcdValue = 256

// commitGoal holds the goals of docs/performance.md for StartRun against etcd 3.6 with one number
// of clients: at least this rate, and at most this processor time of all servers.
type commitGoal struct{ rate, cpu float64 }

// commitGoals returns the goals by the number of clients. They are for the default log store.
func commitGoals() map[int]commitGoal {
	return map[int]commitGoal{1: {1.1, 1}, 16: {1.3, 0.75}, 64: {1.7, 0.55}, 256: {2, 0.55}, 1024: {2.2, 0.5}}
}

// The goal of docs/performance.md for p99 of StartRun against etcd, with 256 clients.
const goalCommitP99, tailClients = 0.6, 256

func commit() benchmark {
	return benchmark{
		name: "commit", short: "Measure the rate of started runs, compared with etcd",
		long: `Measure StartRun, the most expensive write: it checks the request id and the
active run of the machine, and writes history and events. Clients call the leader
over at most 16 connections, without a pause, each for a machine without runs. In
turn with:

  engine  a command that changes nothing (Probe): the cost of Raft, the log and
          the API
  etcd    a transaction on three members of etcd that writes three keys of 256
          bytes if two of them do not exist (--vs etcd)

The runs stay in the queue: nothing executes them during the measurement.`,
		example: `  holdfast-bench commit
  holdfast-bench commit --clients 1,64 --slice 1s -o json`,
		parts: []part{{"startrun", "started runs, compared with etcd", inHardware(
			[]string{"--latency", "1h"}, // the one active run never ends
			[]string{"--max-active-runs", "1", "--poll-calls-per-second", "1"}, startRuns)},
			{"edge", "a command without a change, compared with an empty gRPC handler",
				inLabOf(localcluster.Config{}, edge)}},
		flags: []string{"clients", "vs", "etcd", "rounds", "slice"},
	}
}

// inHardware runs do with three peers, and with fake machines in a process of their own.
func inHardware(hardware, peers []string, do func(context.Context, *lab) error) func(context.Context, *session) error {
	return inHardwareOf(localcluster.Config{}, hardware, peers, do)
}

// inHardwareOf is inHardware with another configuration of the peers.
func inHardwareOf(
	cfg localcluster.Config, hardware, peers []string, do func(context.Context, *lab) error,
) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) (err error) {
		start, stop := context.WithTimeout(ctx, readyTimeout)
		defer stop()
		f, err := localcluster.StartFakeHardware(start, s.binary, s.dir, hardware...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		cfg := cfg // do may run more than once
		cfg.FakeEndpoint, cfg.Args = f.Endpoint, peers
		return inLabOf(cfg, do)(ctx, s)
	}
}

// planID is the id of the plan of all runs.
const planID = "bench"

// plan creates the plan with these steps.
func (l *lab) plan(ctx context.Context, steps ...*holdfastv1.Step) error {
	_, err := l.client.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: planID,
		Steps: steps}})
	if err != nil {
		return fmt.Errorf("create plan %s: %w", planID, err)
	}
	return nil
}

// powerCycle is a step that always has an effect.
func powerCycle() *holdfastv1.Step {
	return &holdfastv1.Step{Name: "cycle", Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "cycle",
		Force: true}}}
}

// starter starts a run on a machine of the machinePool with each call.
type starter struct {
	*contest.Calls
	machinePool *machinePool
	want        int // machines for the next slice
}

func (s *starter) Prepare(ctx context.Context) error { return s.machinePool.fill(ctx, s.want) }

func (s *starter) Run(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	latencies, err := s.Calls.Run(ctx, d)
	s.want = max(s.want, len(latencies)*5/4)
	return latencies, err
}

// startRun starts a run on a machine that had none.
func (s *machinePool) startRun(ctx context.Context, conn grpc.ClientConnInterface) error {
	id, err := s.take()
	if err != nil {
		return err
	}
	return startRun(ctx, conn, id)
}

func startRun(ctx context.Context, conn grpc.ClientConnInterface, machine string) error {
	_, err := holdfastv1.NewRunServiceClient(conn).StartRun(ctx,
		&holdfastv1.StartRunRequest{MachineId: machine, RequestId: "bench", Type: "REBOOT", PlanId: planID})
	if err != nil {
		return fmt.Errorf("start a run on %s: %w", machine, err)
	}
	return nil
}

// startRuns measures StartRun for all numbers of clients.
func startRuns(ctx context.Context, l *lab) (err error) {
	if err := l.plan(ctx, powerCycle()); err != nil {
		return err
	}
	other, err := l.rivalEtcd(ctx)
	if err != nil {
		return err
	}
	if other != nil {
		defer func() { err = errors.Join(err, other.Close()) }()
	}
	machines := &machinePool{lab: l}
	for _, n := range l.clients {
		l.say("%d rounds of %s each: %d clients", l.rounds, l.slice, n)
		if err := startRunsBy(ctx, l, n, machines, other); err != nil {
			return err
		}
	}
	return nil
}

// rivalEtcd starts etcd, or returns nil if the comparison is off or etcd is not installed.
func (l *lab) rivalEtcd(ctx context.Context) (*rival.Etcd, error) {
	if !l.against(vsEtcd) {
		return nil, nil //nolint:nilnil // the comparison is optional
	}
	program, why := l.etcd, ""
	if program == "" {
		program, why = rival.FindEtcd(l.binary)
	}
	if why != "" {
		l.report.Note("nothing was compared with etcd: %s", why)
		return nil, nil //nolint:nilnil // the same
	}
	l.say("starting three members of etcd, with TLS, in %s", l.dir)
	e, err := rival.StartEtcd(ctx, program, l.dir)
	if err == nil {
		l.report.Note("etcd is %s", e.Version)
	}
	return e, err
}

// startRunsBy measures StartRun with n clients.
func startRunsBy(ctx context.Context, l *lab, n int, machines *machinePool, other *rival.Etcd) (err error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	peers := []int{leader.PID()}
	for _, p := range followers {
		peers = append(peers, p.PID())
	}
	addrs, creds := []string{leader.GRPCAddr}, l.cluster.Credentials()
	ours, err := contest.NewCalls(n, creds, addrs, machines.startRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	engine, err := contest.NewCalls(n, creds, addrs, probe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	servers := map[string][]int{"servers": peers}
	all := []*contest.Contender{
		{Name: "holdfast", Load: &starter{Calls: ours, machinePool: machines, want: min(100*n, 10_000)}, Procs: servers},
		{Name: "engine", Load: engine, Procs: servers},
	}
	var lead *rival.Member
	if other != nil {
		if lead, err = other.Leader(ctx); err != nil {
			return err
		}
		theirs, err := contest.NewCalls(n, other.Creds, []string{lead.Addr}, etcdStarter(n))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, theirs.Close()) }()
		all = append(all, &contest.Contender{Name: vsEtcd, Load: theirs, Procs: map[string][]int{"servers": other.PIDs()}})
	}
	out, err := contest.Interleave(ctx, l.rounds, l.slice, all)
	if err != nil {
		return err
	}
	if err := l.stillLeads(ctx, leader); err != nil {
		return err
	}
	if now, err := stillLed(ctx, other, lead); err != nil || !now {
		return errors.Join(err, errors.New("measure etcd: its leader has changed: run it again on a less busy machine"))
	}
	reportCommits(l.report, n, out, other, l.logStore)
	return nil
}

// stillLed reports whether m still leads etcd. Without etcd it returns true.
func stillLed(ctx context.Context, e *rival.Etcd, m *rival.Member) (bool, error) {
	if e == nil {
		return true, nil
	}
	now, err := e.Leader(ctx)
	return now == m, err
}

// etcdStarter returns a call that writes three keys: the request, the active run of the machine,
// and the run.
func etcdStarter(clients int) func(context.Context, grpc.ClientConnInterface) error {
	value := []byte(strings.Repeat("x", etcdValue))
	var next atomic.Int64
	return func(ctx context.Context, conn grpc.ClientConnInterface) error {
		id := fmt.Sprintf("%d-%d", clients, next.Add(1))
		request, active, run := "req/"+id, "active/"+id, "run/"+id
		return rival.EtcdCommit(ctx, conn, rival.EtcdIfNew([]string{request, active}, []string{request, active, run}, value))
	}
}

// reportCommits adds the figures for n clients to the report, with a verdict if both sides are as
// the goals demand: etcd 3.6 or newer, and the default log store.
func reportCommits(r *report.Report, n int, out map[string]*contest.Outcome, other *rival.Etcd, logStore string) {
	judged := other != nil && etcdCounts(other) && logStore == defaultLogStore
	us, engine := out["holdfast"], out["engine"]
	id, with := fmt.Sprintf("commit.%d", n), fmt.Sprintf(", %d clients", n)
	p99 := func(o *contest.Outcome) float64 { return report.Quantile(report.Millis(o.Latencies), 0.99) }
	if other != nil {
		them := out[vsEtcd]
		var rate, cpu, tail *report.Goal
		if g, ok := commitGoals()[n]; ok && judged {
			rate, cpu = report.AtLeast(g.rate), report.AtMost(g.cpu)
		}
		if n == tailClients && judged {
			tail = report.AtMost(goalCommitP99)
		}
		r.Add(id+".vs_etcd", "StartRun : etcd"+with, report.Ratio(us.Rate, them.Rate), "x", rate)
		r.Add(id+".cpu_vs_etcd", "processor time of all servers per StartRun : etcd"+with,
			report.Ratio(us.CPU["servers"], them.CPU["servers"]), "x", cpu)
		r.Add(id+".p99_vs_etcd", "p99 of StartRun : etcd"+with, p99(us)/p99(them), "x", tail)
		defer func() {
			r.Add(id+".etcd_rate", "etcd, transactions"+with, report.Median(them.Rate), "/s", nil)
			r.Add(id+".etcd_p50", "etcd, p50"+with, report.Quantile(report.Millis(them.Latencies), 0.5), "ms", nil)
			r.Add(id+".etcd_p99", "etcd, p99"+with, p99(them), "ms", nil)
			r.Add(id+".etcd_cpu", "processor time of all members per transaction"+with, report.Median(them.CPU["servers"]),
				"µs", nil)
		}()
	}
	r.Add(id+".vs_engine", "StartRun : a command without a change"+with, report.Ratio(us.Rate, engine.Rate), "x", nil)
	r.Add(id+".rate", "runs started"+with, report.Median(us.Rate), "/s", nil)
	r.Add(id+".p50", "StartRun, p50"+with, report.Quantile(report.Millis(us.Latencies), 0.5), "ms", nil)
	r.Add(id+".p99", "StartRun, p99"+with, p99(us), "ms", nil)
	r.Add(id+".cpu", "processor time of all peers per StartRun"+with, report.Median(us.CPU["servers"]), "µs", nil)
	r.Add(id+".engine_rate", "commands without a change"+with, report.Median(engine.Rate), "/s", nil)
}

// etcdCounts reports whether the goals hold for this version of etcd: they are for 3.6 and newer.
func etcdCounts(e *rival.Etcd) bool {
	return !strings.HasPrefix(e.Version, "3.4.") && !strings.HasPrefix(e.Version, "3.5.")
}
