package bench

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// goalIdle is the goal of docs/performance.md for the processor time of an idle leader, in % of a
// core.
const goalIdle = 2.5

// idleSettle is the time that new peers have to finish their start.
const idleSettle = 10 * time.Second

// idle returns the benchmark of idle peers.
func idle() benchmark {
	return benchmark{
		name: "idle", short: "Measure the processor time of three idle peers",
		long: `Start three peers, leave them alone for 10 s, and measure the processor time of the
leader and of a follower for --duration, with Raft's timeouts as --raft-multiplier
sets them.`,
		example: "  holdfast-bench idle --duration 30s",
		parts:   []part{{"idle", "idle peers", inLabOf(localcluster.Config{}, idlePeers)}},
		flags:   []string{"duration"},
	}
}

func idlePeers(ctx context.Context, l *lab) error {
	leader, followers, err := l.roles(ctx)
	if err != nil {
		return err
	}
	l.say("leaving them alone for %s, then measuring for %s", idleSettle, l.duration)
	if err := wait.Sleep(ctx, idleSettle); err != nil {
		return err
	}
	before, after, err := l.watched(ctx, leader, followers)
	if err != nil {
		return err
	}
	goal := report.AtMost(goalIdle)
	if l.patience != 1 {
		goal = nil
		l.report.Note("the goal of idle peers is for --raft-multiplier 1")
	}
	own, follower := before.cores(after)
	l.report.Add("idle.leader_cpu", "idle leader, of one core", own, "%", goal)
	l.report.Add("idle.follower_cpu", "idle follower, of one core", follower, "%", nil)
	return l.stillLeads(ctx, leader)
}
