package scope

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

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

// SeesRuns returns a function that reports whether a caller may see a run: its machine must be
// visible now, and the pool that it was in when the run started must be in the caller's scope. So a
// machine whose id is registered again does not show the runs of its former owner. Runs of deleted
// machines are visible only to callers without a scope.
func SeesRuns(id *holdfastv1.Identity, view func() *fsm.View) func(*holdfastv1.Run) bool {
	if !auth.Scoped(id) {
		return func(*holdfastv1.Run) bool { return true }
	}
	return func(r *holdfastv1.Run) bool {
		m, ok := view().Machine(r.GetMachineId())
		return ok && Visible(id, m) && ofOwner(id, r.GetPool())
	}
}

// SeesConsoles returns a function that reports whether a caller may see a console session, by the
// rule of SeesRuns.
func SeesConsoles(id *holdfastv1.Identity, v *fsm.View) func(*holdfastv1.ConsoleSession) bool {
	sees := SeesRuns(id, func() *fsm.View { return v })
	return func(s *holdfastv1.ConsoleSession) bool {
		return sees(&holdfastv1.Run{MachineId: s.GetMachineId(), Pool: s.GetPool()})
	}
}

// SeesChange reports whether a caller may see an entry of the history of a machine that it may see:
// the machine must have been in a pool of the caller's scope then.
func SeesChange(id *holdfastv1.Identity, e *holdfastv1.HistoryEntry) bool {
	return ofOwner(id, e.GetPool())
}

// ofOwner reports whether a record of a visible machine belongs to the caller.
func ofOwner(id *holdfastv1.Identity, pool string) bool {
	return id.GetMachineId() != "" || auth.InScope(id, pool)
}

// SeesServices reports whether a caller may see the services of the discovery API. They are in no
// pool, so a caller that is limited to pools sees none.
func SeesServices(id *holdfastv1.Identity) bool { return !auth.Scoped(id) }

// Status returns the status of the cluster without the addresses between peers and the texts about
// their hosts, if the caller is limited to pools.
func Status(id *holdfastv1.Identity, st *holdfastv1.ClusterStatus) *holdfastv1.ClusterStatus {
	if !auth.Scoped(id) {
		return st
	}
	st = proto.CloneOf(st)
	for _, p := range st.GetPeers() {
		p.RaftAddr, p.GossipAddr, p.Load = "", "", nil
		for _, text := range []*string{&p.Error, &p.Warning, &p.Next} {
			if *text != "" {
				*text = "only callers without a scope see the reason"
			}
		}
	}
	if st.GetProblem() != "" {
		st.Problem = "this peer cannot serve now"
	}
	return st
}

// Plan returns a plan with only those brakes, outcomes and ramps that are about the caller's pools.
// Of the brake of the whole fleet it leaves out the error, which names a machine. Brake is the
// brake that holds the caller's runs, if any.
func Plan(id *holdfastv1.Identity, p *holdfastv1.Plan) *holdfastv1.Plan {
	if !auth.Scoped(id) && (p.GetBrake() != nil || len(p.GetHeld()) == 0) {
		return p
	}
	shown := proto.CloneOf(p)
	if auth.Scoped(id) {
		sees := func(pool string) bool { return auth.InScope(id, pool) }
		shown.Held = slices.DeleteFunc(shown.GetHeld(), func(b *holdfastv1.PlanBrake) bool { return !sees(b.GetPool()) })
		shown.Recent = slices.DeleteFunc(shown.GetRecent(),
			func(o *holdfastv1.PlanOutcome) bool { return !sees(o.GetPool()) })
		shown.Ramps = slices.DeleteFunc(shown.GetRamps(), func(r *holdfastv1.PlanRamp) bool { return !sees(r.GetPool()) })
		if shown.GetBrake().GetFleet() {
			shown.Brake.LastError = ""
		} else {
			shown.Brake = nil
		}
	}
	if shown.GetBrake() == nil && len(shown.GetHeld()) > 0 {
		shown.Brake = proto.CloneOf(shown.GetHeld()[0])
	}
	return shown
}
