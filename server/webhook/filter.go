package webhook

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/filter"
)

// Schema returns the schema of event filters. All fields are fixed, because events never
// change.
func Schema() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Event)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{
			"facet":    "change.facet",
			"run_id":   "run.run_id",
			"plan_id":  "run.plan_id",
			"run_type": "run.type",
		},
		Fixed: []string{"cursor", "index", "at", "type", "machine_id", "change", "run", "service"},
	}
}

// Compile parses a filter of events. Its error is a *filter.Error.
func Compile(text string) (*filter.Filter, error) { return filter.Compile(Schema(), text) }
