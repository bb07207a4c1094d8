package machineapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// registration is the body of POST register. Agents in the field also send a token, which
// is "" or has another meaning to them. It is ignored.
type registration struct {
	MachineID    ident `json:"machine_id"`
	Hostname     text  `json:"hostname"`
	ProviderName text  `json:"provider_name"`
	PoolName     ident `json:"pool_name"`
	CPU          text  `json:"cpu"`
	Memory       text  `json:"memory"`
	GPUCount     text  `json:"gpu_count"`
	PrivateIP    text  `json:"private_ip"`
	TokenSHA256  extra `json:"token_sha256"` // hex; an extension, see RegisterAgentRequest
	hardware
}

// missing returns the names of required members without a value.
func (r *registration) missing() (all []string) {
	for _, m := range []struct {
		name  string
		value text
	}{
		{"machine_id", text(r.MachineID)}, {"hostname", r.Hostname}, {"pool_name", text(r.PoolName)}, {"cpu", r.CPU},
		{"memory", r.Memory}, {"gpu_count", r.GPUCount}, {"private_ip", r.PrivateIP},
	} {
		if strings.TrimSpace(string(m.value)) == "" {
			all = append(all, m.name)
		}
	}
	return all
}

// hardware contains optional members of newer agents, named as in the node API. Invalid
// values are ignored, so that no agent is refused because of them.
type hardware struct {
	Vendor       extra `json:"vendor"`
	Model        extra `json:"model"`
	SerialNumber extra `json:"serial_number"`
	SystemUUID   extra `json:"system_uuid"`
	Arch         extra `json:"arch"`
	BootMode     extra `json:"boot_mode"`
	MACAddress   extra `json:"mac_address"`
}

// record returns the hardware record, or nil if it is empty.
func (h hardware) record() *holdfastv1.NodeRecord {
	h.MACAddress = ""
	if h == (hardware{}) {
		return nil
	}
	return &holdfastv1.NodeRecord{
		Vendor:       string(h.Vendor),
		Model:        string(h.Model),
		SerialNumber: string(h.SerialNumber),
		SystemUuid:   string(h.SystemUUID),
		Arch:         string(h.Arch),
		BootMode:     string(h.BootMode),
	}
}

// mac returns the MAC address, or "" if there is no valid one.
func (h hardware) mac() string {
	mac, _ := fsm.MAC(string(h.MACAddress))
	return mac
}

// machineState is the machine in the responses of register and keepalive.
type machineState struct {
	MachineID     string `json:"machine_id"`
	Status        string `json:"status"`
	PoolName      string `json:"pool_name"`
	LastKeepalive string `json:"last_keepalive,omitempty"` // unix seconds
	TTLSeconds    int64  `json:"ttl_seconds"`
	AgentVersion  string `json:"agent_version,omitempty"`
	TokenID       string `json:"token_id,omitempty"` // set if this registration enrolled the machine
}

// registered is the response of POST register. config is always present.
type registered struct {
	Config       any          `json:"config"`
	MachineState machineState `json:"machine_state"`
}

func (a *api) register(w http.ResponseWriter, r *http.Request) {
	if !agentOnly(w, r) {
		return
	}
	var in registration
	if !read(w, r, &in) {
		return
	}
	if missing := in.missing(); len(missing) > 0 {
		why := "missing or empty: " + strings.Join(missing, ", ")
		answer(w, http.StatusBadRequest, failure{Message: "Invalid payload", Suggestion: why})
		return
	}
	cpu, err := millicores(string(in.CPU))
	if err != nil {
		answer(w, http.StatusInternalServerError, failure{Message: "Invalid machine cpu value"})
		return
	}
	memory, err := mebibytes(string(in.Memory))
	if err != nil {
		answer(w, http.StatusInternalServerError, failure{Message: "Invalid machine memory value"})
		return
	}
	gpus, err := strconv.ParseUint(string(in.GPUCount), 10, 31)
	if err != nil {
		answer(w, http.StatusInternalServerError, failure{Message: "Invalid gpu count"})
		return
	}
	provider := string(in.ProviderName)
	provider = cmp.Or(provider, "generic")
	sum, err := hex.DecodeString(string(in.TokenSHA256))
	if err != nil || len(sum) != sha256.Size {
		sum = nil
	}
	m, err := a.agents.RegisterAgent(r.Context(), &holdfastv1.RegisterAgentRequest{
		MachineId:     string(in.MachineID),
		Hostname:      string(in.Hostname),
		ProviderName:  provider,
		PoolName:      string(in.PoolName),
		CpuMillicores: cpu,
		MemoryMib:     memory,
		GpuCount:      int32(gpus),
		PrivateIp:     string(in.PrivateIP),
		Hardware:      in.record(),
		MacAddress:    in.mac(),
		TokenSha256:   sum,
	})
	if err != nil {
		other := failure{Message: "Failed to register machine"}
		if httpjson.Reason(err) == "POOL_UNKNOWN" {
			other.Message = "Invalid pool name"
		}
		c, why := status.Code(err), status.Convert(err).Message()
		if why != other.Message && (c == codes.FailedPrecondition || c == codes.NotFound || c == codes.AlreadyExists) {
			other.Suggestion = why
		}
		a.fail(w, err, other)
		return
	}
	state := machineState{
		MachineID:  m.GetMachineId(),
		Status:     "registered",
		PoolName:   m.GetSpec().GetPool(),
		TTLSeconds: m.GetAgent().GetTtlSeconds(),
	}
	if sum != nil {
		state.TokenID = m.GetAgent().GetTokenId()
	}
	answer(w, http.StatusOK, registered{MachineState: state})
}
