package redfish

import (
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// state is the Status of a resource (Resource schema). Its words are in lower case.
type state struct {
	State, Health, Rollup string
	Conditions            []string // messages of problems that name their part
}

// stateOf returns the Status of a resource, which may be a text.
func stateOf(o loose.Object) state {
	lower := strings.ToLower
	s := o.In("Status")
	if s.Empty() {
		if o.Has("Status") {
			return state{Health: lower(o.Text("Status"))}
		}
		return state{}
	}
	st := state{State: lower(s.Text("State")), Health: lower(s.Text("Health")), Rollup: lower(s.Text("HealthRollup"))}
	for _, c := range s.Objects("Conditions") {
		severity := lower(c.Text("Severity"))
		resolved, _ := c.Flag("Resolved")
		if message := c.Text("Message"); message != "" && !resolved && (severity == "critical" || severity == "warning") {
			st.Conditions = append(st.Conditions, text.Clip(message, 120))
		}
	}
	return st
}

// shown reports whether the resource has a Status.
func (s state) shown() bool { return s.State != "" || s.Health != "" || s.Rollup != "" }

func (s state) absent() bool { return s.State == "absent" }

// part returns the state of a part in an inventory. A word outside the schema proves nothing.
func (s state) part() providers.PartState {
	switch {
	case s.bad() != "":
		return providers.PartFailed
	case s.Health == "ok":
		return providers.PartOK
	}
	return ""
}

// bad describes the fault, or returns "" if none is known. Values outside the schema are ignored:
// some service returns Health: Enabled (bb-Ricardo/check_redfish#200).
func (s state) bad() string {
	switch {
	case s.absent():
	case s.Health == "critical":
		return "failed"
	case s.Health == "warning":
		return "is degraded"
	}
	return ""
}

// suspect reports whether the part, or one below it, has a fault.
func (s state) suspect() bool {
	return s.bad() != "" || s.Rollup == "critical" || s.Rollup == "warning"
}

// called returns the name of a part: its own if that has a number, else the kind and its id.
func (r *resource) called(what string) string {
	for _, property := range []string{"DeviceLocator", "Socket", "Name"} {
		name := r.Text(property)
		if name == "" {
			continue
		}
		if strings.ContainsAny(name, "0123456789") {
			return text.Clip(name, 60)
		}
		break
	}
	return what + " " + text.Clip(r.id(), 40)
}
