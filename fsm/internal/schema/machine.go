package schema

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/internal/facts/known"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The indexes of machines.
const (
	MachinesByOwned  = iota // keys that at most one machine may have
	MachinesBySecret        // referenced secrets
	MachinesByPool
	MachinesPoolReady  // by pool, machines whose agent is ready
	MachinesPassing    // nodes in a transient state, by the time they entered it
	MachinesEnrolled   // machines whose agent has its own token
	MachinesByBoard    // by the serial number and UUID that the machine itself has reported
	MachinesByShared   // by the MAC address of another machine that one of their ports has
	MachinesByLower    // ids with capitals, in lower case: see Respelled
	MachinesUnapproved // by pool, machines that only their agents know
	machineIndexes     // the number of indexes
)

// Machines returns the schema of machines.
func Machines() *table.Schema[*holdfastv1.Machine] {
	return &table.Schema[*holdfastv1.Machine]{
		Kind:    internalv1.SnapshotRecord_MACHINES,
		Key:     (*holdfastv1.Machine).GetMachineId,
		Indexes: machineIndexes,
		Index:   indexMachine,
		Facets:  MachineFacets,
		Fields: append(facetPaths(), []string{
			"machine_id", "labels", "spec.bmc_endpoint", "spec.mac_addresses", "spec.serial",
			"spec.bmc_credentials_ref", "spec.ssh_credentials_ref", "status.phase", "status.conditions.type",
			"status.conditions.status", "status.conditions.subject",
			"status.node_state", "status.agent_state", "node.state_changed_at", "node.serial_number",
			"node.system_uuid", "agent.token_id", "agent.unapproved",
		}...),

		SameKeys: func(old, m *holdfastv1.Machine) bool {
			return old.GetSpec() == m.GetSpec() && old.GetAgent().GetTokenId() == m.GetAgent().GetTokenId() &&
				old.GetAgent().GetUnapproved() == m.GetAgent().GetUnapproved() &&
				old.GetStatus().GetAgentState() == m.GetStatus().GetAgentState() &&
				old.GetStatus().GetNodeState() == m.GetStatus().GetNodeState() &&
				old.GetNode().GetStateChangedAt() == m.GetNode().GetStateChangedAt() &&
				old.GetNode().GetSerialNumber() == m.GetNode().GetSerialNumber() &&
				old.GetNode().GetSystemUuid() == m.GetNode().GetSystemUuid() &&
				sharedMAC(old) == sharedMAC(m)
		},
	}
}

func indexMachine(m *holdfastv1.Machine, add func(index int, key string)) {
	for _, key := range Owned(m) {
		add(MachinesByOwned, key)
	}
	for _, name := range Credentials(m) {
		add(MachinesBySecret, SecretKey(name))
	}
	if p := m.GetSpec().GetPool(); p != "" {
		key := PoolKey(p) + m.GetMachineId()
		add(MachinesByPool, key)
		if m.GetStatus().GetAgentState() == holdfastv1.Agent_READY {
			add(MachinesPoolReady, key)
		}
		if m.GetAgent().GetUnapproved() {
			add(MachinesUnapproved, key)
		}
	}
	if low, capitals := lower(m.GetMachineId()); capitals {
		add(MachinesByLower, NameKey(low))
	}
	if m.GetAgent().GetTokenId() != "" {
		add(MachinesEnrolled, m.GetMachineId())
	}
	if key := BoardKey(m.GetNode()); key != "" {
		add(MachinesByBoard, key+m.GetMachineId())
	}
	if mac := sharedMAC(m); mac != "" {
		add(MachinesByShared, mac+"/"+m.GetMachineId())
	}
	if lifecycle.Passing(m) {
		add(MachinesPassing, OrderedTime(m.GetNode().GetStateChangedAt(), m.GetMachineId()))
	}
}

// OwnedBMC begins the key of a BMC endpoint, which continues with its lex.BMCKey.
const OwnedBMC = "BMC endpoint "

// Owned returns the keys that no other machine may have (docs/concepts.md).
func Owned(m *holdfastv1.Machine) []string {
	keys := make([]string, 0, len(m.GetSpec().GetMacAddresses())+2)
	for _, mac := range m.GetSpec().GetMacAddresses() {
		keys = append(keys, "MAC address "+mac)
	}
	if e := m.GetSpec().GetBmcEndpoint(); e != "" {
		keys = append(keys, OwnedBMC+lex.BMCKey(e))
	}
	if s := m.GetSpec().GetSerial(); s != "" {
		keys = append(keys, "serial "+s)
	}
	return keys
}

// sharedMAC returns the MAC address of another machine that a port of a machine has, or "".
func sharedMAC(m *holdfastv1.Machine) string {
	if c := lifecycle.Condition(m, lifecycle.IdentityConflict); c.GetStatus() {
		return c.GetSubject()
	}
	return ""
}

// BoardKey returns the prefix of the keys of machines with the same serial number and UUID, or ""
// if they are not known.
func BoardKey(n *holdfastv1.NodeRecord) string {
	key := known.Key(n.GetSerialNumber(), n.GetSystemUuid())
	if key == "" {
		return ""
	}
	return key + "\x00"
}

// LabelPath is the first part of the paths of labels.
const LabelPath = "labels."

// facetConditions has the conditions that are facets, with the status that few machines have:
// operators search for those, and InCustomerCluster determines the effective state.
var facetConditions = map[string]string{
	lifecycle.Degraded: "true", lifecycle.NeedsIntervention: "true", lifecycle.InCluster: "true",
	lifecycle.Reachable:    "false",
	lifecycle.BMCReachable: "false", lifecycle.PoweredOn: "false", lifecycle.AgentReady: "false",
	lifecycle.IdentityConflict: "true",
}

// facetFields returns the declared fields that are facets.
var facetFields = sync.OnceValue(func() []machinefield.Field {
	var all []machinefield.Field
	for f := range machinefield.All() {
		if f.GetFacet() {
			all = append(all, f)
		}
	}
	return all
})

// facetPaths returns the paths of the declared fields that are facets.
func facetPaths() []string {
	var all []string
	for _, f := range facetFields() {
		all = append(all, f.Path())
	}
	return all
}

// MachineFacets visits the facets of a machine: all labels, and those of MachineFacet.
func MachineFacets(m *holdfastv1.Machine, visit func(prefix, name, value string)) {
	for key, value := range m.GetLabels() { // the order does not matter
		visit(LabelPath, key, value)
	}
	spec, status := m.GetSpec(), m.GetStatus()
	for _, f := range facetFields() {
		if value := f.Text(spec); value != "" {
			visit("spec.", f.Name(), value)
		}
	}
	for _, f := range [...]struct {
		name  string
		value int32
		names map[int32]string
	}{
		{"phase", int32(status.GetPhase()), holdfastv1.MachineStatus_Phase_name},
		{"node_state", int32(status.GetNodeState()), holdfastv1.Node_State_name},
		{"agent_state", int32(status.GetAgentState()), holdfastv1.Agent_State_name},
	} {
		if name := f.names[f.value]; f.value != 0 && name != "" {
			visit("status.", f.name, name)
		}
	}
	for _, c := range status.GetConditions() {
		if want := facetConditions[c.GetType()]; want != "" && c.GetStatus() == (want == "true") {
			visit("status.conditions.", c.GetType(), want)
		}
	}
}

// MachineFacet reports whether path and value are a facet, so that all matching machines can
// be found by it. Paths are those of filters; the path of a condition is status.conditions
// and its type.
func MachineFacet(path, value string) bool {
	if label, ok := strings.CutPrefix(path, LabelPath); ok && label != "" {
		return true
	}
	if value == "" {
		return false
	}
	if kind, ok := strings.CutPrefix(path, "status.conditions."); ok && kind != "" {
		return facetConditions[kind] == value
	}
	if name, ok := strings.CutPrefix(path, "spec."); ok {
		f, ok := machinefield.Named(name)
		return ok && f.GetFacet()
	}
	return slices.Contains([]string{"status.phase", "status.node_state", "status.agent_state"}, path)
}

// PoolKey returns the prefix of the index keys of a pool's machines. Neither name can contain
// the separator.
func PoolKey(id string) string { return id + "\x00" }

// Credentials returns the secrets that a machine refers to. They need not exist, because
// inventory is often loaded first; the provider that needs a missing one reports it.
func Credentials(m *holdfastv1.Machine) []string {
	var names []string
	for _, name := range []string{m.GetSpec().GetBmcCredentialsRef(), m.GetSpec().GetSshCredentialsRef()} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// SecretKey returns the index key of a secret. It ends with a byte that no name contains, so
// that no key is a prefix of another.
func SecretKey(name string) string { return name + "\x00" }
