package shallow

import (
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Machine returns a copy of a machine. Its own fields may be changed, those of its status, its
// node and its agent, and the list of its conditions. Its spec, its labels and each condition
// are shared.
func Machine(m *holdfastv1.Machine) *holdfastv1.Machine {
	c := Top(m)
	if c.Status != nil {
		c.Status.Conditions = slices.Clone(c.Status.Conditions)
	}
	if m.Node != nil {
		c.Node = Node(m.Node)
	}
	if m.Agent != nil {
		c.Agent = Agent(m.Agent)
	}
	return c
}

// Top returns a copy of a machine. Its own fields and those of its status may be changed; all
// other parts are shared.
func Top(m *holdfastv1.Machine) *holdfastv1.Machine {
	c := &holdfastv1.Machine{
		MachineId: m.MachineId,
		Labels:    m.Labels,
		Spec:      m.Spec,
		Status:    m.Status,
		CreatedAt: m.CreatedAt,
		UpdatedAt: m.UpdatedAt,
		Revision:  m.Revision,
		Node:      m.Node,
		Agent:     m.Agent,
		Hardware:  m.Hardware,
	}
	if m.Status != nil {
		c.Status = Status(m.Status)
	}
	return c
}

// Status returns a copy of a machine's status. Its own fields may be changed; its lists are
// shared.
func Status(s *holdfastv1.MachineStatus) *holdfastv1.MachineStatus {
	return &holdfastv1.MachineStatus{
		Phase:          s.Phase,
		Conditions:     s.Conditions,
		ActiveRunId:    s.ActiveRunId,
		EffectiveState: s.EffectiveState,
		Banners:        s.Banners,
		NodeState:      s.NodeState,
		AgentState:     s.AgentState,
		PhaseChangedAt: s.PhaseChangedAt,
		BmcRetryAt:     s.BmcRetryAt,
		ClusterRef:     s.ClusterRef,
	}
}

// Agent returns a copy of a machine's agent. Its own fields may be changed; its metrics are
// shared.
func Agent(a *holdfastv1.AgentRecord) *holdfastv1.AgentRecord {
	return &holdfastv1.AgentRecord{
		ProviderName:   a.ProviderName,
		Hostname:       a.Hostname,
		CpuMillicores:  a.CpuMillicores,
		MemoryMib:      a.MemoryMib,
		GpuCount:       a.GpuCount,
		PrivateIp:      a.PrivateIp,
		AgentVersion:   a.AgentVersion,
		Metrics:        a.Metrics,
		CreatedAt:      a.CreatedAt,
		RegisteredAt:   a.RegisteredAt,
		LastKeepalive:  a.LastKeepalive,
		StateChangedAt: a.StateChangedAt,
		MacAddress:     a.MacAddress,
		TokenId:        a.TokenId,
	}
}
