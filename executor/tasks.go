// Package executor lists the leader's tasks. Each has a package of its own:
//
//   - runs drives runs: it makes the attempts of their steps and stores their logs
//   - waves starts the runs of waves, within their limits
//   - monitor polls the conditions of machines
//   - lease tracks heartbeats and expires leases
//   - retention archives ended runs and removes old records
//   - notes stores facts about devices, and install sessions
//   - nodelog logs the changes of nodes, agents and pools
//   - webhook posts events
//   - bootstrap creates the first token of a cluster
//
// Package turnstile bounds the runs that are between two attempts.
//
// A task begins with a term and ends with it. It has no durable state of its own: everything is
// rebuilt from a View when a term begins. A task must not decide how a command changes the state
// (the FSM does), and it must reach hardware only through a provider.
package executor

import (
	"log/slog"
	"slices"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/executor/monitor"
	"github.com/holdfast-metal/holdfast/executor/nodelog"
	"github.com/holdfast-metal/holdfast/executor/notes"
	"github.com/holdfast-metal/holdfast/executor/retention"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/executor/webhook"
	"github.com/holdfast-metal/holdfast/providers"
)

// Config configures the tasks. The zero value of each part is its default.
type Config struct {
	Runs     runs.Config
	Monitor  monitor.Config
	Leases   lease.Config
	Archive  retention.ArchiverConfig // unused without Deps.Archive
	Webhooks webhook.Config
	Logger   *slog.Logger // of the tasks without a configuration; required
}

// Deps are what the tasks work with.
type Deps struct {
	Node      task.Proposer
	State     task.State // the leader's own FSM
	Providers *providers.Set
	Secrets   webhook.Secrets
	Archive   retention.Archive // nil for none
	Devices   *notes.Devices
}

// Tasks are the leader tasks of a peer. Those that other parts of the peer use have a field.
type Tasks struct {
	Runs   *runs.Executor
	Leases *lease.Engine

	all []leader.Task
}

// New returns the tasks of a peer.
func New(cfg Config, d Deps) *Tasks {
	t := &Tasks{
		Runs:   runs.New(cfg.Runs, d.Node, d.State, d.Providers),
		Leases: lease.NewEngine(cfg.Leases, d.Node, d.State),
	}
	t.all = []leader.Task{
		t.Runs,
		t.Leases,
		d.Devices,
		monitor.New(cfg.Monitor, d.Node, d.State, d.Providers),
		retention.NewGC(d.Node, d.State, cfg.Logger),
		nodelog.New(d.State, cfg.Logger),
		webhook.NewSender(cfg.Webhooks, d.Node, d.State, d.Secrets),
	}
	if d.Archive != nil {
		t.all = append(t.all, retention.NewArchiver(cfg.Archive, d.Node, d.State, d.Archive))
	}
	return t
}

// All returns the tasks for cluster.Peer.Run, followed by those of packages that do not belong to
// the executor, such as the rotation of keys.
func (t *Tasks) All(others ...leader.Task) []leader.Task {
	return append(slices.Clip(t.all), others...)
}
