package runs

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	defaultParallel = 10
	maxWaveID       = 64
	maxWaveFilter   = 4 << 10 // bytes
)

// CheckStartWave checks the parts of a wave that need no state.
func CheckStartWave(c *internalv1.StartWave) *refusal.Error {
	w := c.GetWave()
	switch n := len(c.GetMachineIds()); {
	case !lex.ValidName(w.GetWaveId(), maxWaveID):
		return refusal.InvalidField("request_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'",
			w.GetWaveId(), maxWaveID)
	case n == 0:
		return refusal.InvalidField("machine_ids", "are none: a wave has 1 to %d machines", limits.WaveMachines)
	case n > limits.WaveMachines:
		return refusal.InvalidField("machine_ids", "are %d: a wave has at most %d machines", n, limits.WaveMachines)
	case w.GetMaxParallel() < 0 || w.GetMaxParallel() > waves.MaxParallel:
		return refusal.InvalidField("max_parallel", "%d is not 1 to %d", w.GetMaxParallel(), waves.MaxParallel)
	case w.GetMaxFailures() < 0:
		return refusal.InvalidField("max_failures", "%d is negative", w.GetMaxFailures())
	case len(w.GetFilter()) > maxWaveFilter:
		return refusal.InvalidField("filter", "has %d bytes, at most %d are allowed", len(w.GetFilter()), maxWaveFilter)
	}
	seen := map[string]bool{}
	for _, id := range c.GetMachineIds() {
		if seen[id] {
			return refusal.InvalidField("machine_ids", "name %q twice", id)
		}
		seen[id] = true
	}
	return CheckStartRun(WaveStart(w, c.GetMachineIds()[0]))
}

// CompleteWave returns a checked wave with the canonical type, the default plan and the default
// limits. The server does this before it proposes a wave. Apply does it again, because a command of
// an older leader may lack these fields. So these defaults must never change.
func CompleteWave(w *holdfastv1.Wave) *holdfastv1.Wave {
	w = proto.CloneOf(w)
	w.Type, _ = plans.CanonicalType(w.GetType())
	w.PlanId = cmp.Or(w.GetPlanId(), plans.DefaultID(w.GetType()))
	w.MaxParallel = cmp.Or(w.GetMaxParallel(), defaultParallel)
	return w
}

// WaveStart returns the start of a machine's run in a wave.
func WaveStart(w *holdfastv1.Wave, machineID string) *internalv1.StartRun {
	return &internalv1.StartRun{
		MachineId: machineID, RequestId: w.GetWaveId(), Type: w.GetType(), PlanId: w.GetPlanId(), Params: w.GetParams(),
	}
}

// StartWave creates a wave, or returns the existing wave of its id. It removes the oldest ended
// waves if there are too many.
func StartWave(t *core.Tx, c *internalv1.StartWave) (*holdfastv1.Wave, *refusal.Error) {
	if err := CheckStartWave(c); err != nil {
		return nil, err
	}
	in := CompleteWave(c.GetWave())
	plan, found := t.Plans.Get(in.GetPlanId())
	if found {
		in.Params = plans.Complete(plan, in.GetParams())
	}
	if old, ok := t.Waves.Get(in.GetWaveId()); ok {
		return old, sameWave(t, old, in, c.GetMachineIds())
	}
	if !found {
		return nil, plans.NotFound(in.GetPlanId())
	}
	if err := checkParams(t, plan, in.GetParams()); err != nil {
		return nil, err
	}
	for _, id := range c.GetMachineIds() {
		if !t.Machines.Has(id) {
			return nil, fleet.MachineNotFound(id)
		}
	}
	pools := poolsOf(t, c.GetMachineIds())
	var limited []string
	if access.Scoped(t) {
		limited = pools
	}
	surplus, err := waves.Room(t.State, limited, len(c.GetMachineIds()))
	if err != nil {
		return nil, err
	}
	for _, w := range surplus {
		waves.Remove(t, w)
	}
	n := int32(len(c.GetMachineIds()))
	w := &holdfastv1.Wave{
		WaveId: in.GetWaveId(), Type: in.GetType(), PlanId: in.GetPlanId(), Params: in.GetParams(), Filter: in.GetFilter(),
		MaxParallel: in.GetMaxParallel(), MaxFailures: in.GetMaxFailures(), RetryOf: in.GetRetryOf(),
		Phase: holdfastv1.Wave_RUNNING, CreatedAt: t.Now, Principal: t.Command.GetPrincipal(), Total: n, Waiting: n,
		Pools: pools,
	}
	for i, id := range c.GetMachineIds() {
		m, _ := t.Machines.Get(id)
		t.WaveMembers.Put(&internalv1.WaveMember{
			WaveId: w.GetWaveId(), Position: uint32(i), Pool: m.GetSpec().GetPool(),
			Machine: &holdfastv1.WaveMachine{MachineId: id, State: holdfastv1.WaveMachine_WAITING},
		})
	}
	waves.Put(t, w, nil)
	return w, nil
}

// poolsOf returns the pools of machines, sorted.
func poolsOf(t *core.Tx, machines []string) []string {
	seen := map[string]bool{}
	for _, id := range machines {
		if m, _ := t.Machines.Get(id); m.GetSpec().GetPool() != "" {
			seen[m.GetSpec().GetPool()] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// sameWave returns an error if a wave's id is used again for another wave.
func sameWave(t *core.Tx, old, in *holdfastv1.Wave, machines []string) *refusal.Error {
	i := 0
	same := old.GetType() == in.GetType() && old.GetPlanId() == in.GetPlanId() &&
		maps.Equal(old.GetParams(), in.GetParams()) && old.GetRetryOf() == in.GetRetryOf() &&
		old.GetMaxParallel() == in.GetMaxParallel() && old.GetMaxFailures() == in.GetMaxFailures() &&
		int(old.GetTotal()) == len(machines)
	for _, m := range t.WaveMembers.Scan(schema.MembersByPosition, schema.MemberPrefix(old.GetWaveId()), "") {
		same = same && m.GetMachine().GetMachineId() == machines[i]
		i++
	}
	if same {
		return nil
	}
	return refusal.New(refusal.AlreadyExists, refusal.ReasonRequestConflict,
		"wave %q exists with another plan, other limits or other machines: use another request_id", old.GetWaveId()).
		With("wave_id", old.GetWaveId())
}
