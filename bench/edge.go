package bench

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
)

// goalEdge is the goal for the leader's processor time of a command that changes nothing, against a
// gRPC handler that does nothing, both with TLS.
const goalEdge, edgeClients = 1.9, 256

// edge measures the processor time of the leader for a command that changes nothing, in turn with
// that of a gRPC handler that does nothing.
func edge(ctx context.Context, l *lab) (err error) {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	cert, key := l.cluster.Files().Peer(leader.ID)
	empty, err := rival.Start(l.self, rival.TargetVerb, "--grpc", "--cert", cert, "--key", key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.Close()) }()
	creds := l.cluster.Credentials()
	ours, err := contest.NewCalls(edgeClients, creds, []string{leader.GRPCAddr}, probe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	theirs, err := contest.NewCalls(edgeClients, creds, []string{empty.Addr}, getMachine(false))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()
	l.say("%d rounds of %s each: commands that change nothing, and an empty handler", l.rounds, l.slice)
	out, err := contest.Interleave(ctx, l.rounds, l.slice, []*contest.Contender{
		{Name: "engine", Load: ours, Procs: map[string][]int{"leader": {leader.PID()}, "follower": {followers[0].PID()}}},
		{Name: vsGRPC, Load: theirs, Procs: map[string][]int{"server": empty.PIDs}},
	})
	if err != nil {
		return err
	}
	us, them := out["engine"].CPU, out[vsGRPC].CPU["server"]
	r := l.report
	r.Add("edge.vs_grpc", "processor time of the leader, a command that changes nothing : an empty gRPC handler",
		report.Ratio(us["leader"], them), "x", report.AtMost(goalEdge))
	r.Add("edge.leader_cpu", "processor time of the leader, a command that changes nothing", report.Median(us["leader"]),
		"µs", nil)
	r.Add("edge.follower_cpu", "the same of a follower", report.Median(us["follower"]), "µs", nil)
	r.Add("edge.grpc_cpu", "processor time of an empty gRPC handler with TLS", report.Median(them), "µs", nil)
	return l.stillLeads(ctx, leader)
}
