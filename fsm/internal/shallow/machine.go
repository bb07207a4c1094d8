// Package shallow copies messages of the state one level deep. Stored messages are shared and
// never change, so a command that changes one copies it, and shares the parts that it leaves
// alone. It must not know the rules of a resource.
package shallow

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

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
	both := &struct { // one allocation for both
		machine holdfastv1.Machine
		status  holdfastv1.MachineStatus
	}{}
	c := &both.machine
	c.MachineId, c.Labels, c.Spec = m.MachineId, m.Labels, m.Spec
	c.CreatedAt, c.UpdatedAt, c.Revision = m.CreatedAt, m.UpdatedAt, m.Revision
	c.Node, c.Agent, c.Hardware, c.HardwareSummary = m.Node, m.Agent, m.Hardware, m.HardwareSummary
	if m.Status != nil {
		c.Status = &both.status
		setStatus(c.Status, m.Status)
	}
	return c
}

func setStatus(c, s *holdfastv1.MachineStatus) {
	c.Phase, c.Conditions, c.ActiveRunId = s.Phase, s.Conditions, s.ActiveRunId
	c.EffectiveState, c.Banners, c.NodeState = s.EffectiveState, s.Banners, s.NodeState
	c.AgentState, c.PhaseChangedAt, c.BmcRetryAt = s.AgentState, s.PhaseChangedAt, s.BmcRetryAt
	c.ClusterRef = s.ClusterRef
	c.Power, c.PowerObservedAt = s.Power, s.PowerObservedAt
	c.NeedsAttention, c.Issues = s.NeedsAttention, s.Issues
}

// Spec returns a copy of a machine's spec. Its own fields may be changed; its lists are shared. It
// is copied by reflection, because it changes rarely, and gets new fields often.
func Spec(s *holdfastv1.MachineSpec) *holdfastv1.MachineSpec {
	c := &holdfastv1.MachineSpec{}
	s.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		c.ProtoReflect().Set(f, v)
		return true
	})
	return c
}

// Node returns a copy of a machine's node. Its own fields may be changed; its tags are shared.
func Node(n *holdfastv1.NodeRecord) *holdfastv1.NodeRecord {
	return &holdfastv1.NodeRecord{
		Hostname:         n.Hostname,
		IpAddress:        n.IpAddress,
		WorkflowId:       n.WorkflowId,
		Vendor:           n.Vendor,
		Model:            n.Model,
		SerialNumber:     n.SerialNumber,
		SystemUuid:       n.SystemUuid,
		Arch:             n.Arch,
		BootMode:         n.BootMode,
		GroupId:          n.GroupId,
		Tags:             n.Tags,
		InstallAttempts:  n.InstallAttempts,
		LastInstallError: n.LastInstallError,
		StateChangedAt:   n.StateChangedAt,
		LastSeenAt:       n.LastSeenAt,
		InstallProgress:  n.InstallProgress,
		InstallStatus:    n.InstallStatus,
		InstallStatusAt:  n.InstallStatusAt,
		InstallRunId:     n.InstallRunId,
		ApprovedAt:       n.ApprovedAt,
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
		Unapproved:     a.Unapproved,
		EnrollerId:     a.EnrollerId,
		TtlSeconds:     a.TtlSeconds,
	}
}
