package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/poolreg"
)

// gpuPool reports the state of this machine's GPUs. It implements poolreg.Source. Each
// program that uses a GPU counts as a busy worker: idle workers are not visible here.
type gpuPool struct {
	started time.Time
	gpus    *smi.Monitor // nil if there is no nvidia-smi
	fixed   []fixedGPU
}

// State implements poolreg.Source.
func (p *gpuPool) State(context.Context) (poolreg.State, error) {
	state := poolreg.State{Uptime: time.Since(p.started)}
	if p.gpus == nil {
		for _, g := range p.fixed {
			state.GPUs = append(state.GPUs, poolreg.GPU{
				ID: g.ID, Model: g.Model, ComputeCapability: g.ComputeCapability,
				TotalVRAMGB: g.TotalVRAMGB, AvailableVRAMGB: g.TotalVRAMGB,
			})
		}
		return state, nil
	}
	seen, err := p.gpus.GPUs()
	if err != nil {
		return state, err
	}
	workers := make(map[int]bool)
	for _, g := range seen {
		// Drivers report some megabytes less than the advertised size, so the total is
		// rounded. The free memory is rounded down.
		gpu := poolreg.GPU{
			ID:                 g.Index,
			Model:              g.Model,
			TotalVRAMGB:        scaled(g.TotalVRAMMiB, 512, 1024),
			AvailableVRAMGB:    scaled(g.FreeVRAMMiB, 0, 1024),
			ComputeCapability:  g.ComputeCapability,
			TemperatureCelsius: scaled(g.TemperatureCelsius, 0, 1),
		}
		for _, pid := range g.PIDs {
			workers[pid] = true
			gpu.Workers = append(gpu.Workers, fmt.Sprintf("pid-%d", pid))
		}
		state.GPUs = append(state.GPUs, gpu)
	}
	state.WorkersTotal, state.WorkersBusy = len(workers), len(workers)
	return state, nil
}

// scaled returns (n + add) / by, or nil if n is unknown.
func scaled(n *int64, add, by int64) *int {
	if n == nil {
		return nil
	}
	return new(int((*n + add) / by))
}
