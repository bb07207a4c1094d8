package machine

import (
	"context"
	"fmt"
	"strconv"
)

// Source supplies the facts of a machine. Both calls must return quickly: a keepalive waits
// for them.
type Source interface {
	// Specs are sent at registration, and again if they change.
	Specs(ctx context.Context) (Specs, error)
	// Metrics are sent with each keepalive. On an error the keepalive is sent without them.
	Metrics(ctx context.Context) (Metrics, error)
}

// Specs are the resources of a machine.
type Specs struct {
	Hostname      string
	PrivateIP     string
	CPUMillicores int64 // 8000 for eight cores
	MemoryMiB     int64
	GPUCount      int

	// Hardware is not in the specification. Its fields are sent as further members of the
	// same request, which other servers ignore.
	Hardware Hardware
}

// Hardware identifies the machine, with the field names of the node API. Empty fields are
// not sent.
type Hardware struct {
	Vendor       string `json:"vendor,omitempty"`
	Model        string `json:"model,omitempty"`
	SerialNumber string `json:"serial_number,omitempty"`
	SystemUUID   string `json:"system_uuid,omitempty"`
	Arch         string `json:"arch,omitempty"`
	BootMode     string `json:"boot_mode,omitempty"`   // uefi or bios
	MACAddress   string `json:"mac_address,omitempty"` // of the interface with PrivateIP
}

// Metrics are the utilization of a machine.
type Metrics struct {
	CPUUtilizationPct    float64 `json:"cpu_utilization_pct"`
	MemoryUtilizationPct float64 `json:"memory_utilization_pct"`
	TotalCPUAvailable    int64   `json:"total_cpu_available"`      // millicores
	TotalMemoryAvailable int64   `json:"total_memory_available"`   // MiB
	FreeGPUCount         *int    `json:"free_gpu_count,omitempty"` // nil: unknown
}

// registerRequest is the body of POST /api/v1/machine/register, in the specification's
// order.
type registerRequest struct {
	Token        string `json:"token"`
	MachineID    string `json:"machine_id"`
	Hostname     string `json:"hostname"`
	ProviderName string `json:"provider_name"`
	PoolName     string `json:"pool_name"`
	CPU          string `json:"cpu"`
	Memory       string `json:"memory"`
	GPUCount     string `json:"gpu_count"`
	PrivateIP    string `json:"private_ip"`
	TokenSHA256  string `json:"token_sha256,omitempty"` // not in the specification: see credentials
	Hardware
}

func (s Specs) request(cfg Config, token, sum string) registerRequest {
	return registerRequest{
		Token: token, MachineID: cfg.MachineID, Hostname: s.Hostname,
		ProviderName: cfg.Provider, PoolName: cfg.Pool,
		CPU: strconv.FormatInt(s.CPUMillicores, 10) + "m", Memory: formatMemory(s.MemoryMiB),
		GPUCount: strconv.Itoa(s.GPUCount), PrivateIP: s.PrivateIP, TokenSHA256: sum, Hardware: s.Hardware,
	}
}

// formatMemory formats whole Gi as the specification does, and anything else as Mi.
func formatMemory(mib int64) string {
	if mib > 0 && mib%1024 == 0 {
		return fmt.Sprintf("%dGi", mib/1024)
	}
	return fmt.Sprintf("%dMi", mib)
}

// keepaliveRequest is the body of POST /api/v1/machine/keepalive.
type keepaliveRequest struct {
	MachineID    string   `json:"machine_id"`
	ProviderName string   `json:"provider_name"`
	PoolName     string   `json:"pool_name"`
	AgentVersion string   `json:"agent_version,omitempty"`
	Metrics      *Metrics `json:"metrics,omitempty"`
}
