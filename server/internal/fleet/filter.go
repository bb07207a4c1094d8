package fleet

import (
	"strings"

	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machineFilter returns the fields that machine filters can use, with aliases for common
// ones.
func machineFilter() *filter.Schema {
	s := &filter.Schema{
		Message: (*holdfastv1.Machine)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{"conditions": "status.conditions", "state": "status.effective_state"}, // STATE in tables
		Keyed: map[string]filter.Keyed{"status.conditions": {
			Key:     "type",
			Value:   "status",
			Unknown: "unknown",
			Names: []string{
				"Reachable", "BMCReachable", "Provisioned", "InCustomerCluster", "Drained", "Degraded",
				"NeedsIntervention", "AgentReady", "PoweredOn", "IdentityConflict",
			},
		}},
		Hidden: []string{"hardware_summary"},
		Fixed:  []string{"machine_id", "created_at"},
		Canonical: map[string]func(string) string{"spec.mac_addresses": func(s string) string {
			return strings.ToLower(strings.ReplaceAll(s, "-", ":"))
		}},
	}
	for f := range machinefield.All() {
		if f.GetFilter() {
			s.Aliases[f.Name()] = f.Path()
		}
	}
	for _, name := range []string{
		"phase", "active_run_id", "effective_state", "node_state", "agent_state", "phase_changed_at", "banners",
		"power", "power_observed_at", "needs_attention", "issues",
	} {
		s.Aliases[name] = "status." + name
	}
	return s
}
