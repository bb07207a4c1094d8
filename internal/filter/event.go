package filter

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// EventSchema returns the schema of filters of events. All fields are fixed, because events never
// change.
func EventSchema() *Schema {
	return &Schema{
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

// CompileEvent parses a filter of events. Its error is an *Error.
func CompileEvent(text string) (*Filter, error) { return Compile(EventSchema(), text) }
