package machineapi

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// keepalive is the body of POST keepalive. Metrics are optional.
type keepalive struct {
	MachineID    ident    `json:"machine_id"`
	ProviderName text     `json:"provider_name"`
	PoolName     ident    `json:"pool_name"`
	AgentVersion text     `json:"agent_version"`
	Metrics      *metrics `json:"metrics"`
}

// missing returns the names of required members without a value.
func (k *keepalive) missing() (all []string) {
	if k.MachineID == "" {
		all = append(all, "machine_id")
	}
	if k.PoolName == "" {
		all = append(all, "pool_name")
	}
	return all
}

type metrics struct {
	CPUUtilization    metric `json:"cpu_utilization_pct"`
	MemoryUtilization metric `json:"memory_utilization_pct"`
	TotalCPU          metric `json:"total_cpu_available"`
	TotalMemory       metric `json:"total_memory_available"` // MiB; some agents send bytes
	FreeGPUs          metric `json:"free_gpu_count"`
}

// alive is the response of POST keepalive. Agents may follow the interval.
type alive struct {
	Status          string       `json:"status"`
	MachineState    machineState `json:"machine_state"`
	NextKeepaliveMS int64        `json:"next_keepalive_ms,omitempty"`
	Note            string       `json:"note,omitempty"` // which metrics were not recorded as sent
}

func (a *api) keepalive(w http.ResponseWriter, r *http.Request) {
	if !agentOnly(w, r) {
		return
	}
	var in keepalive
	if !read(w, r, &in) {
		return
	}
	if missing := in.missing(); len(missing) > 0 {
		answer(w, http.StatusBadRequest, failure{Message: "machine_id and pool_name are required",
			Suggestion: "missing or empty: " + strings.Join(missing, ", ")})
		return
	}
	req := &holdfastv1.KeepMachineAliveRequest{
		MachineId:    string(in.MachineID),
		ProviderName: string(in.ProviderName),
		PoolName:     string(in.PoolName),
		AgentVersion: string(in.AgentVersion),
	}
	var note string
	if in.Metrics != nil {
		req.Metrics, note = in.Metrics.bounded()
	}
	resp, err := a.heartbeats.KeepMachineAlive(r.Context(), req)
	if err != nil {
		other := failure{Message: "Failed to update keepalive"}
		if status.Code(err) == codes.NotFound {
			other = failure{
				Message:    "Machine state expired",
				ErrorCode:  "machine_not_found",
				Suggestion: "Register the machine again: POST /api/v1/machine/register",
			}
		}
		a.fail(w, err, other)
		return
	}
	answer(w, http.StatusOK, alive{
		Status: "ok", Note: note, NextKeepaliveMS: resp.GetNextKeepaliveMs(), MachineState: machineState{
			MachineID:     resp.GetMachineId(),
			Status:        "ready",
			PoolName:      resp.GetPoolName(),
			LastKeepalive: unix(resp.GetLastKeepalive().GetSeconds()),
			TTLSeconds:    resp.GetTtlSeconds(),
			AgentVersion:  resp.GetAgentVersion(),
		}})
}

// unix returns seconds as text, as agents expect them, or "" for 0.
func unix(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return strconv.FormatInt(seconds, 10)
}
