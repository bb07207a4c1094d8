package runs

import (
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// runFilter returns the fields that run filters can use.
func runFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Run)(nil).ProtoReflect().Descriptor(),
		Hidden:  []string{"queue_position"},
		Fixed: []string{
			"run_id", "machine_id", "request_id", "type", "plan_id", "params", "created_at", "principal",
			"machine_phase_before",
		},
		Canonical: map[string]func(string) string{"type": request.CanonicalType},
	}
}
