package serve

import (
	"time"

	"github.com/holdfast-metal/holdfast/executor"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/executor/monitor"
	"github.com/holdfast-metal/holdfast/executor/notes"
	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/webhook"
	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/hardware"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/providers"
)

// machines contains the parts of a peer that reach machines.
type machines struct {
	hardware  *hardware.Hardware
	providers *providers.Set
	notes     *notes.Devices
	secrets   *secrets.Resolver
}

func newMachines(o *opened) (*machines, error) {
	m := &machines{notes: notes.NewDevices(o.node, o.state), secrets: secrets.NewResolver(o.state, o.keys)}
	m.hardware = hardware.New(hardware.Config{Secrets: m.secrets, Notes: m.notes, Inventory: o.state,
		Installs: notes.NewInstalls(o.node, o.state), Now: o.clock.Now, Log: o.log, Registerer: o.reg})
	set, err := providers.NewSet(m.hardware.Factories(), o.cfg.Providers, o.log)
	if err != nil {
		return nil, flagerror.Invalid(err)
	}
	if o.cfg.Dev {
		set = set.WithFallback("fake")
	}
	m.providers = set
	return m, nil
}

// newTasks returns the tasks of the leader.
func newTasks(o *opened, m *machines) *executor.Tasks {
	cfg := o.cfg
	return executor.New(executor.Config{
		Runs: runs.Config{
			Config: step.Config{StepDeadline: time.Duration(cfg.DefaultStepTimeoutSeconds) * time.Second,
				DenyURL: o.fetches.CheckURL},
			MaxActive: cfg.MaxActiveRuns,
			Logger:    o.log,
			Tracer:    o.traces.Tracer(),
			Boundary:  boundaryHook()},
		Monitor: monitor.Config{Interval: time.Duration(cfg.ReconcileIntervalSeconds) * time.Second,
			HealthInterval: time.Duration(cfg.HealthIntervalSeconds) * time.Second,
			Calls:          cfg.PollCalls,
			Logger:         o.log,
			Registerer:     o.reg},
		Leases:  lease.Config{Now: o.clock.Now, Logger: o.log, Registerer: o.reg},
		Archive: cfg.archiveConfig.archiver(o.log, o.reg),
		Webhooks: webhook.Config{Transport: o.fetches.Transport(), RefuseOpen: cfg.OpenWebhooks == "refuse",
			Logger: o.log, Registerer: o.reg},
		Logger: o.log,
	}, executor.Deps{Node: o.node, State: o.state, Providers: m.providers, Secrets: m.secrets, Archive: o.archive,
		Devices: m.notes})
}
