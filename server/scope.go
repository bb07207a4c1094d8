package server

import (
	"context"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// visible reports whether a caller may see a machine: it is in a pool of the caller's
// scope, or it is the agent's own. A machine that is not visible is reported as not
// found.
func visible(id *holdfastv1.Identity, m *holdfastv1.Machine) bool {
	if own := id.GetMachineId(); own != "" {
		return m.GetMachineId() == own
	}
	return auth.InScope(id, m.GetSpec().GetPool())
}

// machineFor returns a machine that the caller may see.
func machineFor(ctx context.Context, v *fsm.View, id string) (*holdfastv1.Machine, bool) {
	m, ok := v.Machine(id)
	return m, ok && visible(auth.From(ctx), m)
}

// runFor returns a run that the caller may see.
func runFor(ctx context.Context, v *fsm.View, id string) (*holdfastv1.Run, bool) {
	r, ok := v.Run(id)
	return r, ok && seesRuns(auth.From(ctx), func() *fsm.View { return v })(r)
}

// seesRuns returns a function that reports whether a caller may see a run: its machine
// must be visible now. Runs of deleted machines are visible only to callers without a
// scope.
func seesRuns(id *holdfastv1.Identity, view func() *fsm.View) func(*holdfastv1.Run) bool {
	if !auth.Scoped(id) {
		return func(*holdfastv1.Run) bool { return true }
	}
	return func(r *holdfastv1.Run) bool {
		m, ok := view().Machine(r.GetMachineId())
		return ok && visible(id, m)
	}
}
