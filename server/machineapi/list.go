package machineapi

import (
	"net/http"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// listed is one machine of GET list. It contains no token.
type listed struct {
	State   listedState    `json:"state"`
	Metrics *listedMetrics `json:"metrics"`
}

type listedState struct {
	MachineID     string `json:"machine_id"`
	PoolName      string `json:"pool_name"`
	ProviderName  string `json:"provider_name"`
	Status        string `json:"status"`
	Hostname      string `json:"hostname"`
	CPU           int64  `json:"cpu"`    // millicores
	Memory        int64  `json:"memory"` // MiB
	GPU           string `json:"gpu"`    // the pool's GPU type, or ""
	GPUCount      int32  `json:"gpu_count"`
	PrivateIP     string `json:"private_ip"`
	Created       string `json:"created"`        // unix seconds
	LastKeepalive string `json:"last_keepalive"` // unix seconds
	AgentVersion  string `json:"agent_version"`
}

type listedMetrics struct {
	CPUUtilization    float64 `json:"cpu_utilization_pct"`
	MemoryUtilization float64 `json:"memory_utilization_pct"`
	TotalCPU          int64   `json:"total_cpu_available"`
	TotalMemory       int64   `json:"total_memory_available"` // MiB
	FreeGPUs          int32   `json:"free_gpu_count"`
}

// list responds with all ready machines, optionally of one pool and one provider.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	machines := make([]listed, 0)
	req := &holdfastv1.ListAgentMachinesRequest{PoolName: q.Get("pool_name"), ProviderName: q.Get("provider_name")}
	for resp, err := range httpjson.Pages(r.Context(), req, a.agents.ListAgentMachines) {
		if err != nil {
			a.fail(w, err, failure{Message: "Failed to get neighbors"})
			return
		}
		for _, m := range resp.GetMachines() {
			machines = append(machines, listing(m, resp.GetGpuTypes()[m.GetSpec().GetPool()]))
		}
	}
	answer(w, http.StatusOK, machines)
}

func listing(m *holdfastv1.Machine, gpu string) listed {
	g := m.GetAgent()
	l := listed{State: listedState{
		MachineID:     m.GetMachineId(),
		PoolName:      m.GetSpec().GetPool(),
		ProviderName:  g.GetProviderName(),
		Status:        "ready",
		Hostname:      g.GetHostname(),
		CPU:           g.GetCpuMillicores(),
		Memory:        g.GetMemoryMib(),
		GPU:           gpu,
		GPUCount:      g.GetGpuCount(),
		PrivateIP:     g.GetPrivateIp(),
		Created:       unix(m.GetCreatedAt().GetSeconds()),
		LastKeepalive: unix(g.GetLastKeepalive().GetSeconds()),
		AgentVersion:  g.GetAgentVersion(),
	}}
	if x := g.GetMetrics(); x != nil {
		l.Metrics = &listedMetrics{
			CPUUtilization:    httpjson.Finite(x.GetCpuUtilizationPct()),
			MemoryUtilization: httpjson.Finite(x.GetMemoryUtilizationPct()),
			TotalCPU:          x.GetTotalCpuAvailable(),
			TotalMemory:       x.GetTotalMemoryAvailable(),
			FreeGPUs:          x.GetFreeGpuCount(),
		}
	}
	return l
}

// config responds with an empty configuration: agents need none.
func (a *api) config(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"config": nil})
}
