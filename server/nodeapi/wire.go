package nodeapi

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// node is a node in a response. Its id is the machine's id.
type node struct {
	ID               string   `json:"id"`
	MACAddress       *string  `json:"mac_address"`
	Hostname         *string  `json:"hostname"`
	IPAddress        *string  `json:"ip_address"`
	State            string   `json:"state"`
	WorkflowID       *string  `json:"workflow_id"`
	Vendor           *string  `json:"vendor"`
	Model            *string  `json:"model"`
	SerialNumber     *string  `json:"serial_number"`
	SystemUUID       *string  `json:"system_uuid"`
	Arch             *string  `json:"arch"`
	BootMode         *string  `json:"boot_mode"`
	GroupID          *string  `json:"group_id"`
	Tags             []string `json:"tags"`
	InstallAttempts  int32    `json:"install_attempts"`
	InstallProgress  int32    `json:"install_progress"`
	LastInstallError *string  `json:"last_install_error"`
	StateChangedAt   *string  `json:"state_changed_at"`
	CreatedAt        *string  `json:"created_at"`
	UpdatedAt        *string  `json:"updated_at"`
	LastSeenAt       *string  `json:"last_seen_at"`
}

func show(m *holdfastv1.Machine) node {
	n := m.GetNode()
	out := node{
		ID:               m.GetMachineId(),
		Hostname:         httpjson.OrNull(n.GetHostname()),
		IPAddress:        httpjson.OrNull(n.GetIpAddress()),
		State:            stateName(m.GetStatus().GetNodeState()),
		WorkflowID:       httpjson.OrNull(n.GetWorkflowId()),
		Vendor:           httpjson.OrNull(n.GetVendor()),
		Model:            httpjson.OrNull(n.GetModel()),
		SerialNumber:     httpjson.OrNull(n.GetSerialNumber()),
		SystemUUID:       httpjson.OrNull(n.GetSystemUuid()),
		Arch:             httpjson.OrNull(n.GetArch()),
		BootMode:         httpjson.OrNull(n.GetBootMode()),
		GroupID:          httpjson.OrNull(n.GetGroupId()),
		Tags:             n.GetTags(),
		InstallAttempts:  n.GetInstallAttempts(),
		InstallProgress:  n.GetInstallProgress(),
		LastInstallError: httpjson.OrNull(n.GetLastInstallError()),
		StateChangedAt:   stamp(n.GetStateChangedAt()),
		CreatedAt:        stamp(m.GetCreatedAt()),
		UpdatedAt:        stamp(m.GetUpdatedAt()),
		LastSeenAt:       stamp(n.GetLastSeenAt()),
	}
	if macs := m.GetSpec().GetMacAddresses(); len(macs) > 0 {
		out.MACAddress = &macs[0]
	}
	if out.SerialNumber == nil {
		out.SerialNumber = httpjson.OrNull(m.GetSpec().GetSerial())
	}
	if out.Arch == nil { // the defaults of the original API
		out.Arch = httpjson.OrNull("x86_64")
	}
	if out.BootMode == nil {
		out.BootMode = httpjson.OrNull("bios")
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	return out
}

func stateName(s holdfastv1.Node_State) string { return strings.ToLower(s.String()) }

// stateOf parses the name of a state.
func stateOf(name string) (holdfastv1.Node_State, bool) {
	s, ok := holdfastv1.Node_State_value[strings.ToUpper(name)]
	return holdfastv1.Node_State(s), ok && s != 0 && name == strings.ToLower(name)
}

func stamp(t *timestamppb.Timestamp) *string {
	if t == nil {
		return nil
	}
	return httpjson.OrNull(t.AsTime().UTC().Format(time.RFC3339Nano))
}
