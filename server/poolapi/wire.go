package poolapi

import (
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// pool contains the members shared by registrations and heartbeats (POOLREG-18010, 18020,
// 18030).
type pool struct {
	PoolID        string `json:"pool_id"`
	Endpoint      string `json:"endpoint"`
	NodeID        string `json:"node_id"`
	GPUs          []gpu  `json:"gpus"`
	Region        string `json:"region"`
	Version       string `json:"version"`
	WorkersTotal  int32  `json:"workers_total"`
	WorkersReady  int32  `json:"workers_ready"`
	WorkersBusy   int32  `json:"workers_busy"`
	UptimeSeconds int64  `json:"uptime_seconds"`
}

type gpu struct {
	ID                 int32    `json:"id"`
	Model              string   `json:"model,omitempty"`
	TotalVRAMGB        *float64 `json:"total_vram_gb,omitempty"` // absent: unknown, as are the next two
	AvailableVRAMGB    *float64 `json:"available_vram_gb,omitempty"`
	ComputeCapability  string   `json:"compute_capability,omitempty"`
	Workers            []string `json:"workers"`
	TemperatureCelsius *float64 `json:"temperature_celsius,omitempty"`
}

func (p *pool) proto() *holdfastv1.Pool {
	out := &holdfastv1.Pool{
		PoolId:        p.PoolID,
		Endpoint:      p.Endpoint,
		NodeId:        p.NodeID,
		Region:        p.Region,
		Version:       p.Version,
		WorkersTotal:  p.WorkersTotal,
		WorkersReady:  p.WorkersReady,
		WorkersBusy:   p.WorkersBusy,
		UptimeSeconds: p.UptimeSeconds,
	}
	for _, g := range p.GPUs {
		out.Gpus = append(out.Gpus, &holdfastv1.Gpu{
			Id:                 g.ID,
			Model:              g.Model,
			TotalVramGb:        g.TotalVRAMGB,
			AvailableVramGb:    g.AvailableVRAMGB,
			ComputeCapability:  g.ComputeCapability,
			Workers:            g.Workers,
			TemperatureCelsius: g.TemperatureCelsius,
		})
	}
	return out
}

// shown is a pool in a response.
type shown struct {
	pool
	Status          string            `json:"status"` // declared, registered, healthy, unavailable, draining, archived
	StatusReason    string            `json:"status_reason,omitempty"`
	Provider        string            `json:"provider,omitempty"`
	GPUType         string            `json:"gpu_type,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Declared        bool              `json:"declared"`
	AvailableVRAMGB int64             `json:"available_vram_gb"`
	VRAMPartial     bool              `json:"available_vram_partial,omitempty"` // some GPUs do not show theirs
	Machines        int32             `json:"machines"`
	MachinesReady   int32             `json:"machines_ready"`
	RegisteredAt    any               `json:"registered_at"`
	LastHeartbeat   any               `json:"last_heartbeat"`
}

func show(p *holdfastv1.Pool) shown {
	s := shown{
		pool: pool{
			PoolID:        p.GetPoolId(),
			Endpoint:      p.GetEndpoint(),
			NodeID:        p.GetNodeId(),
			Region:        p.GetRegion(),
			Version:       p.GetVersion(),
			GPUs:          []gpu{},
			WorkersTotal:  p.GetWorkersTotal(),
			WorkersReady:  p.GetWorkersReady(),
			WorkersBusy:   p.GetWorkersBusy(),
			UptimeSeconds: p.GetUptimeSeconds(),
		},
		Status:          strings.ToLower(p.GetStatus().String()),
		StatusReason:    p.GetStatusReason(),
		Provider:        p.GetProvider(),
		GPUType:         p.GetGpuType(),
		Labels:          p.GetLabels(),
		Declared:        p.GetDeclared(),
		AvailableVRAMGB: p.GetAvailableVramGb(),
		VRAMPartial:     p.GetAvailableVramPartial(),
		Machines:        p.GetMachines(),
		MachinesReady:   p.GetMachinesReady(),
		RegisteredAt:    stamp(p.GetRegisteredAt().GetSeconds()),
		LastHeartbeat:   stamp(p.GetLastHeartbeat().GetSeconds()),
	}
	if p.GetStatus() == holdfastv1.Pool_STATUS_UNSPECIFIED {
		s.Status = "declared"
	}
	for _, g := range p.GetGpus() {
		workers := g.GetWorkers()
		if workers == nil {
			workers = []string{}
		}
		s.GPUs = append(s.GPUs, gpu{
			ID:                 g.GetId(),
			Model:              g.GetModel(),
			TotalVRAMGB:        httpjson.Known(g.TotalVramGb),
			AvailableVRAMGB:    httpjson.Known(g.AvailableVramGb),
			ComputeCapability:  g.GetComputeCapability(),
			Workers:            workers,
			TemperatureCelsius: httpjson.Known(g.TemperatureCelsius),
		})
	}
	return s
}

// registered, heard and offered are responses with their members in the order of the
// specification.
type registered struct {
	PoolID              string `json:"pool_id"`
	Status              string `json:"status"`
	HeartbeatIntervalMS int64  `json:"heartbeat_interval_ms"`
}

type heard struct {
	Status          string `json:"status"`
	NextHeartbeatMS int64  `json:"next_heartbeat_ms"`
}

type offered struct {
	ProviderID            string  `json:"provider_id"`
	Status                string  `json:"status"`
	PlatformMarginPercent float64 `json:"platform_margin_percent"`
}
