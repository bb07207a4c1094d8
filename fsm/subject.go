package fsm

import (
	"cmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// These functions return the subjects of commands. A command without machines and pools (plans,
// tokens, secrets, services, the cluster) is refused to callers that are limited to pools.

// byName returns a function for commands about one record that they name.
func byName[C any](kind string, name func(C) string) func(*core.Tx, C) subject {
	return func(_ *core.Tx, c C) subject { return named(kind, name(c)) }
}

// everything returns a function for commands about everything of a kind.
func everything[C any](kind string) func(*core.Tx, C) subject {
	return func(*core.Tx, C) subject { return subject{resource: kind} }
}

func ofCluster[C any](*core.Tx, C) subject { return subject{resource: "cluster"} }

func ofMachine[C interface{ GetMachineId() string }](_ *core.Tx, c C) subject {
	return machineSubject(c.GetMachineId())
}

func ofNode[C interface{ GetId() string }](t *core.Tx, c C) subject {
	about := machineSubject(nodeID(t, c.GetId()))
	about.absent, about.id = fleet.NodeNotFound, c.GetId()
	return about
}

// ofNodeUpdate returns the subject of a change of a node. If it names another workflow, it includes
// the clusters that the workflow would join.
func ofNodeUpdate(t *core.Tx, c *internalv1.UpdateNode) subject {
	about := ofNode(t, c)
	if id := c.GetNode().GetWorkflowId(); id != "" {
		about.secrets = workflowSecrets(t, about.machines[0], id)
	}
	return about
}

// ofTransition returns the subject of a node's transition. If it approves the node, it includes the
// clusters that its workflow would join.
func ofTransition(t *core.Tx, c *internalv1.TransitionNode) subject {
	about := ofNode(t, c)
	if m, ok := t.Machines.Get(about.machines[0]); ok {
		about.secrets = workflowSecrets(t, m.GetMachineId(), m.GetNode().GetWorkflowId())
	}
	return about
}

func ofRun[C interface{ GetRunId() string }](_ *core.Tx, c C) subject {
	return named("runs", c.GetRunId())
}

func ofRunsMachine[C interface{ GetRunId() string }](t *core.Tx, c C) subject {
	return runSubject(t, c.GetRunId())
}

// ofRelease returns the pools in which a plan is released. Without one, it is released in all.
func ofRelease(_ *core.Tx, c *internalv1.ReleasePlan) subject {
	about := named("plans", c.GetPlanId())
	about.pools = c.GetPools()
	return about
}

func ofPlan[C interface{ GetPlanId() string }](_ *core.Tx, c C) subject {
	return named("plans", c.GetPlanId())
}

func ofPool[C interface{ GetPoolId() string }](_ *core.Tx, c C) subject {
	return poolSubject(c.GetPoolId())
}

func ofNewPool[C interface{ GetPool() *holdfastv1.Pool }](_ *core.Tx, c C) subject {
	return poolSubject(c.GetPool().GetPoolId())
}

func ofRestore[C interface{ GetRestoreId() string }](_ *core.Tx, c C) subject {
	return named("snapshots", c.GetRestoreId())
}

// ofInstaller returns the machine of the installer's token.
func ofInstaller[C interface{ GetSha256() []byte }](t *core.Tx, c C) subject {
	if s, _, ok := sessions.InstallByToken(t.State, c.GetSha256()); ok {
		return machineSubject(s.GetInstall().GetMachineId())
	}
	return named("installs", "?")
}

func ofRegistration(t *core.Tx, c *internalv1.RegisterMachine) subject {
	in := c.GetMachine()
	about := inventorySubject(t, in, func(m *holdfastv1.Machine) *Error {
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels() // they may contain the provider
		}
		return nil
	})
	about.absent, about.fresh = idTaken, c.GetGeneratedId()
	return about
}

func ofUpdate(t *core.Tx, c *internalv1.UpdateMachine) subject {
	in := c.GetMachine()
	return inventorySubject(t, in, func(m *holdfastv1.Machine) *Error {
		return fleet.MergeMachine(t, m, in, c.GetPaths())
	})
}

func ofAgentMachine(t *core.Tx, c *internalv1.CreateAgentMachine) subject {
	about := newMachine(t, c.GetMachineId(), c.GetPool())
	about.fresh = c.GetGeneratedId()
	return about
}

func ofAgent(t *core.Tx, c *internalv1.RegisterAgent) subject {
	in := c.GetAgent()
	if _, ok := fleet.PoolOpen(t, in.GetPoolName()); !ok { // the command has the right error
		return machineSubject(in.GetMachineId())
	}
	about := newMachine(t, in.GetMachineId(), in.GetPoolName())
	about.absent = notYours("machine")
	return about
}

func ofNewNode(t *core.Tx, c *internalv1.CreateNode) subject {
	about := newMachine(t, c.GetMachineId(), "")
	about.fresh = c.GetGeneratedId()
	return about
}

func ofReport(t *core.Tx, c *internalv1.ReportNode) subject {
	id := nodeID(t, c.GetReport().GetMacAddress())
	if t.Machines.Has(id) {
		about := machineSubject(id)
		about.absent, about.id = fleet.NoNodeWithMAC, c.GetReport().GetMacAddress()
		return about
	}
	if !c.GetDiscover() { // the command reports that it is unknown
		return subject{resource: "machines/" + lex.Ident(id), machines: []string{""}}
	}
	about := newMachine(t, c.GetMachineId(), "") // the machine is discovered
	about.fresh = true
	return about
}

func ofProvider(t *core.Tx, c *internalv1.RegisterProvider) subject {
	return providerSubject(t, c.GetProvider())
}

func ofDeletedProvider(t *core.Tx, c *internalv1.DeleteProvider) subject {
	return providerSubject(t, &holdfastv1.PlatformProvider{ProviderId: c.GetProviderId()})
}

func ofService(_ *core.Tx, c *internalv1.RegisterService) subject {
	if id := c.GetTarget().GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetNewId())
}

func ofDeregistered(_ *core.Tx, c *internalv1.DeregisterService) subject {
	if id := c.GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetTarget().GetId())
}

// ofSession returns a session as the subject. EndSession decides itself whose it is.
func ofSession(_ *core.Tx, c *internalv1.EndSession) subject {
	about := named("sessions", c.GetSessionId())
	about.anyScope = true
	return about
}

func ofBackup(_ *core.Tx, c *internalv1.NoteBackup) subject {
	if member := c.GetMember(); member != "" {
		return named("peers", member)
	}
	if c.GetMembers() {
		return subject{resource: "peers"}
	}
	return subject{resource: "snapshots"}
}

// subject is the subject of a command, as it is before the command changes anything.
type subject struct {
	resource string   // for the audit trail; contains only ids, so that no secret leaks
	machines []string // ids; those that exist must be in the caller's pools
	owners   []string // pools that records belong to, such as a run; "" is no pool
	pools    []string // pools of new or moved machines; "" is no pool
	secrets  []string // secrets that the command would newly send somewhere
	anyScope bool     // the command decides by its principal, whatever the caller's pools
	fresh    bool     // the machine would be new, with an id that the caller has not chosen and does not know

	// absent returns the error of a command about a record that does not exist. The answer about
	// one of another pool is the same. Id names the record, or is empty for the machine in
	// question.
	absent func(id string) *Error
	id     string
}

// name returns how a refusal names the subject.
func (s *subject) name() string {
	if s.fresh {
		return "the request"
	}
	return s.resource
}

// missing returns the answer about a record of another pool.
func (s *subject) missing(machine string) *Error {
	if s.absent == nil {
		return fleet.MachineNotFound(machine)
	}
	return s.absent(cmp.Or(s.id, machine))
}

func named(kind, id string) subject { return subject{resource: kind + "/" + lex.Ident(id)} }

func machineSubject(id string) subject {
	return subject{resource: "machines/" + lex.Ident(id), machines: []string{id}}
}

func poolSubject(id string) subject {
	return subject{resource: "pools/" + lex.Ident(id), pools: []string{id}}
}
