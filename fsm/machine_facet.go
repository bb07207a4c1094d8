package fsm

import (
	"iter"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const labelPath = "labels."

// telling contains the conditions that operators search for, with the status that few
// machines have. InCustomerCluster decides the effective state.
var telling = map[string]string{
	lifecycle.Degraded: "true", lifecycle.NeedsIntervention: "true", lifecycle.InCluster: "true",
	"Reachable": "false", "BMCReachable": "false", lifecycle.AgentReady: "false",
}

// machineFacets visits the facets of a machine: all labels, and those of MachineFacet.
func machineFacets(m *holdfastv1.Machine, visit func(prefix, name, value string)) {
	for key, value := range m.GetLabels() { // the order does not matter
		visit(labelPath, key, value)
	}
	spec, status := m.GetSpec(), m.GetStatus()
	for _, f := range [...]struct{ name, value string }{
		{"pool", spec.GetPool()}, {"rack", spec.GetRack()},
		{"location", spec.GetLocation()}, {"provider", spec.GetProvider()},
		{"customer_id", spec.GetCustomerId()}, {"target_cluster_ref", spec.GetTargetClusterRef()},
	} {
		if f.value != "" {
			visit("spec.", f.name, f.value)
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
		if want := telling[c.GetType()]; want != "" && c.GetStatus() == (want == "true") {
			visit("status.conditions.", c.GetType(), want)
		}
	}
}

// MachineFacet reports whether path and value are a facet, so that all matching machines can
// be found by it. Paths are those of filters; the path of a condition is status.conditions
// and its type.
func MachineFacet(path, value string) bool {
	if len(path) > len(labelPath) && path[:len(labelPath)] == labelPath {
		return true
	}
	if value == "" {
		return false
	}
	const conditions = "status.conditions."
	if len(path) > len(conditions) && path[:len(conditions)] == conditions {
		return telling[path[len(conditions):]] == value
	}
	return slices.Contains([]string{
		"spec.pool", "spec.rack", "spec.location", "spec.provider", "spec.customer_id", "spec.target_cluster_ref",
		"status.phase", "status.node_state", "status.agent_state",
	}, path)
}

// FindMachines returns the machines with an id above after that q selects, by id.
func (v *View) FindMachines(q Query, after string) iter.Seq[*holdfastv1.Machine] {
	return func(yield func(*holdfastv1.Machine) bool) {
		for m := range v.machines.find(q, after) {
			if !yield(v.whole(m)) {
				return
			}
		}
	}
}
