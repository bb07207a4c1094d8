package scope

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestScope checks which callers may see a machine in pool a, its run, and the run of a
// machine that was deleted.
func TestScope(t *testing.T) {
	n := nodetest.New()
	for _, id := range []string{"m-1", "m-gone"} {
		n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
			MachineId: id, Spec: &holdfastv1.MachineSpec{Pool: "a"},
		}})
		n.Start(t, id, "run-"+id, "")
	}
	n.Do(t, &internalv1.CancelRun{RunId: "run-m-gone"})
	n.Do(t, &internalv1.DeleteMachine{MachineId: "m-gone"})
	v := n.Peer.View()
	gone, _ := v.Run("run-m-gone")
	for name, tt := range map[string]struct {
		caller           *holdfastv1.Identity
		machine, deleted bool
	}{
		"without a scope":      {&holdfastv1.Identity{Role: holdfastv1.Role_VIEWER}, true, true},
		"of the pool":          {&holdfastv1.Identity{Role: holdfastv1.Role_VIEWER, Pools: []string{"a"}}, true, false},
		"of another pool":      {&holdfastv1.Identity{Role: holdfastv1.Role_VIEWER, Pools: []string{"b"}}, false, false},
		"the machine's agent":  {&holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-1"}, true, false},
		"another machine":      {&holdfastv1.Identity{Role: holdfastv1.Role_AGENT, MachineId: "m-2"}, false, false},
		"a manager of no pool": {&holdfastv1.Identity{Role: holdfastv1.Role_POOL_AGENT}, false, false},
	} {
		ctx := auth.NewContext(t.Context(), &auth.Caller{Identity: tt.caller})
		if _, ok := Machine(ctx, v, "m-1"); ok != tt.machine {
			t.Errorf("%s: sees the machine: %t", name, ok)
		}
		if _, ok := Run(ctx, v, "run-m-1"); ok != tt.machine {
			t.Errorf("%s: sees the run: %t", name, ok)
		}
		if ok := SeesRuns(tt.caller, func() *fsm.View { return v })(gone); ok != tt.deleted {
			t.Errorf("%s: sees the run of the deleted machine: %t", name, ok)
		}
	}
}
