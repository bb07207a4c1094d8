package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// These functions return the subjects of commands. A command without machines and pools (plans,
// tokens, secrets, services, the cluster) is refused to callers that are limited to pools.

// byName returns a function for commands about one record that they name.
func byName[C any](kind string, name func(C) string) func(*tx, C) subject {
	return func(_ *tx, c C) subject { return named(kind, name(c)) }
}

// whole returns a function for commands about everything of a kind.
func whole[C any](kind string) func(*tx, C) subject {
	return func(*tx, C) subject { return subject{resource: kind} }
}

func ofCluster[C any](*tx, C) subject { return subject{resource: "cluster"} }

func ofMachine[C interface{ GetMachineId() string }](_ *tx, c C) subject {
	return machineSubject(c.GetMachineId())
}

func ofNode[C interface{ GetId() string }](t *tx, c C) subject {
	return machineSubject(t.nodeID(c.GetId()))
}

func ofRun[C interface{ GetRunId() string }](_ *tx, c C) subject { return named("runs", c.GetRunId()) }

func ofRunsMachine[C interface{ GetRunId() string }](t *tx, c C) subject {
	return t.runSubject(c.GetRunId())
}

func ofPlan[C interface{ GetPlanId() string }](_ *tx, c C) subject {
	return named("plans", c.GetPlanId())
}

func ofPool[C interface{ GetPoolId() string }](_ *tx, c C) subject { return poolSubject(c.GetPoolId()) }

func ofNewPool[C interface{ GetPool() *holdfastv1.Pool }](_ *tx, c C) subject {
	return poolSubject(c.GetPool().GetPoolId())
}

func ofRestore[C interface{ GetRestoreId() string }](_ *tx, c C) subject {
	return named("snapshots", c.GetRestoreId())
}

// ofInstaller returns the machine of the installer's token.
func ofInstaller[C interface{ GetSha256() []byte }](t *tx, c C) subject {
	if s, _, ok := t.installByToken(c.GetSha256()); ok {
		return machineSubject(s.GetInstall().GetMachineId())
	}
	return named("installs", "?")
}

func ofRegistration(t *tx, c *internalv1.RegisterMachine) subject {
	in := c.GetMachine()
	return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels() // they may contain the provider
		}
		return nil
	})
}

func ofUpdate(t *tx, c *internalv1.UpdateMachine) subject {
	in := c.GetMachine()
	return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
		return t.mergeMachine(m, in, c.GetPaths())
	})
}

func ofAgentMachine(t *tx, c *internalv1.CreateAgentMachine) subject {
	return t.newMachine(c.GetMachineId(), c.GetPool())
}

func ofAgent(t *tx, c *internalv1.RegisterAgent) subject {
	in := c.GetAgent()
	if _, ok := t.poolOpen(in.GetPoolName()); !ok { // the command has the right error
		return machineSubject(in.GetMachineId())
	}
	return t.newMachine(in.GetMachineId(), in.GetPoolName())
}

func ofNewNode(t *tx, c *internalv1.CreateNode) subject { return t.newMachine(c.GetMachineId(), "") }

func ofReport(t *tx, c *internalv1.ReportNode) subject {
	if id := t.nodeID(c.GetReport().GetMacAddress()); t.machines.Has(id) {
		return machineSubject(id)
	}
	return t.newMachine(c.GetMachineId(), "") // the machine is discovered
}

func ofProvider(t *tx, c *internalv1.RegisterProvider) subject {
	return t.providerSubject(c.GetProvider())
}

func ofDeletedProvider(t *tx, c *internalv1.DeleteProvider) subject {
	return t.providerSubject(&holdfastv1.PlatformProvider{ProviderId: c.GetProviderId()})
}

func ofService(_ *tx, c *internalv1.RegisterService) subject {
	if id := c.GetTarget().GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetNewId())
}

func ofDeregistered(_ *tx, c *internalv1.DeregisterService) subject {
	if id := c.GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetTarget().GetId())
}

func ofBackup(_ *tx, c *internalv1.NoteBackup) subject {
	if member := c.GetMember(); member != "" {
		return named("peers", member)
	}
	if c.GetMembers() {
		return subject{resource: "peers"}
	}
	return subject{resource: "snapshots"}
}

// nodeID returns the machine that a node's id refers to, which may be a machine id or a MAC
// address.
func (t *tx) nodeID(id string) string {
	if mac, ok := lex.MAC(id); ok && !t.machines.Has(id) {
		if m, ok := t.machines.Lookup(schema.MachinesByOwned, "MAC address "+mac); ok {
			return m.GetMachineId()
		}
	}
	return id
}
