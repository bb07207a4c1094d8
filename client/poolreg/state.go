package poolreg

import (
	"context"
	"slices"
	"time"
)

// Source supplies the state of the pool (POOLREG-18031). It is called before each
// heartbeat, which is not sent on an error. It must return quickly, with the current state.
type Source interface {
	State(ctx context.Context) (State, error)
}

// State is a snapshot of the pool (POOLREG-18030).
type State struct {
	GPUs         []GPU
	WorkersTotal int
	WorkersReady int
	WorkersBusy  int
	Uptime       time.Duration // of the pool manager
}

// GPU is one GPU and its workers. Sizes are whole gigabytes, as in the specification's
// examples. A quantity that the driver does not report is nil, and is not sent.
type GPU struct {
	ID                 int
	Model              string // "RTX 4090"
	TotalVRAMGB        *int
	ComputeCapability  string // "8.9"
	AvailableVRAMGB    *int
	Workers            []string // ids
	TemperatureCelsius *int
}

// registerRequest is the body of POST /v2/pools/register (POOLREG-18010).
type registerRequest struct {
	PoolID   string        `json:"pool_id"`
	Endpoint string        `json:"endpoint"`
	NodeID   string        `json:"node_id"`
	GPUs     []registerGPU `json:"gpus"`
	Region   string        `json:"region"`
	Version  string        `json:"version"`
}

type registerGPU struct {
	ID                int    `json:"id"`
	Model             string `json:"model"`
	TotalVRAMGB       *int   `json:"total_vram_gb,omitempty"`
	ComputeCapability string `json:"compute_capability"`
}

// equal reports whether two GPUs have the same values.
func (g registerGPU) equal(other registerGPU) bool {
	a, b := g.TotalVRAMGB, other.TotalVRAMGB
	g.TotalVRAMGB, other.TotalVRAMGB = nil, nil
	return g == other && (a == b || a != nil && b != nil && *a == *b)
}

// heartbeatRequest is the body of POST /v2/pools/{id}/heartbeat (POOLREG-18020), with the
// workers of POOLREG-18030 that its example omits.
type heartbeatRequest struct {
	PoolID        string         `json:"pool_id"`
	GPUs          []heartbeatGPU `json:"gpus"`
	WorkersTotal  int            `json:"workers_total"`
	WorkersReady  int            `json:"workers_ready"`
	WorkersBusy   int            `json:"workers_busy"`
	UptimeSeconds int64          `json:"uptime_seconds"`
}

type heartbeatGPU struct {
	ID                 int      `json:"id"`
	TotalVRAMGB        *int     `json:"total_vram_gb,omitempty"`
	AvailableVRAMGB    *int     `json:"available_vram_gb,omitempty"`
	Workers            []string `json:"workers"`
	TemperatureCelsius *int     `json:"temperature_celsius,omitempty"`
}

// deregisterRequest is the body of POST /v2/pools/{id}/deregister (POOLREG-18050).
type deregisterRequest struct {
	PoolID string `json:"pool_id"`
	Reason string `json:"reason"`
}

// inventory returns the part of the state that a registration sends. Lists are never null.
func (s State) inventory() []registerGPU {
	gpus := make([]registerGPU, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		gpus = append(gpus, registerGPU{
			ID:                g.ID,
			Model:             g.Model,
			TotalVRAMGB:       g.TotalVRAMGB,
			ComputeCapability: g.ComputeCapability,
		})
	}
	return gpus
}

func (s State) heartbeat(poolID string) heartbeatRequest {
	req := heartbeatRequest{
		PoolID: poolID, GPUs: make([]heartbeatGPU, 0, len(s.GPUs)), WorkersTotal: s.WorkersTotal,
		WorkersReady: s.WorkersReady, WorkersBusy: s.WorkersBusy, UptimeSeconds: int64(s.Uptime / time.Second),
	}
	for _, g := range s.GPUs {
		req.GPUs = append(req.GPUs, heartbeatGPU{
			ID: g.ID, TotalVRAMGB: g.TotalVRAMGB, AvailableVRAMGB: g.AvailableVRAMGB,
			Workers: append([]string{}, g.Workers...), TemperatureCelsius: g.TemperatureCelsius,
		})
	}
	return req
}

// Capacity is the capacity that a provider offers.
type Capacity struct {
	TotalGPUs   int      `json:"total_gpus"`
	TotalVRAMGB int      `json:"total_vram_gb"`
	GPUModels   []string `json:"gpu_models"`
}

func (s State) capacity() Capacity {
	c := Capacity{TotalGPUs: len(s.GPUs), GPUModels: []string{}}
	for _, g := range s.GPUs {
		if g.TotalVRAMGB != nil {
			c.TotalVRAMGB += *g.TotalVRAMGB
		}
		if g.Model != "" && !slices.Contains(c.GPUModels, g.Model) {
			c.GPUModels = append(c.GPUModels, g.Model)
		}
	}
	return c
}
