package scope

import (
	"context"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// Visible reports whether a caller may see a machine: it is in a pool of the caller's
// scope, or it is the agent's own. A machine that is not visible is reported as not
// found.
func Visible(id *holdfastv1.Identity, m *holdfastv1.Machine) bool {
	if own := id.GetMachineId(); own != "" {
		return m.GetMachineId() == own
	}
	return auth.InScope(id, m.GetSpec().GetPool())
}

// Machine returns a machine that the caller may see.
func Machine(ctx context.Context, v *fsm.View, id string) (*holdfastv1.Machine, bool) {
	m, ok := v.Machine(id)
	return m, ok && Visible(auth.From(ctx), m)
}

// Run returns a run that the caller may see.
func Run(ctx context.Context, v *fsm.View, id string) (*holdfastv1.Run, bool) {
	r, ok := v.Run(id)
	return r, ok && SeesRuns(auth.From(ctx), func() *fsm.View { return v })(r)
}

// SeesRuns returns a function that reports whether a caller may see a run: its machine
// must be visible now. Runs of deleted machines are visible only to callers without a
// scope.
func SeesRuns(id *holdfastv1.Identity, view func() *fsm.View) func(*holdfastv1.Run) bool {
	if !auth.Scoped(id) {
		return func(*holdfastv1.Run) bool { return true }
	}
	return func(r *holdfastv1.Run) bool {
		m, ok := view().Machine(r.GetMachineId())
		return ok && Visible(id, m)
	}
}
