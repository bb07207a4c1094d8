package shallow

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/wire/wiretest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestCopiesAreWhole checks that a copy has every field, also those that are added later, and
// that it is not the original.
func TestCopiesAreWhole(t *testing.T) {
	whole(t, Run)
	whole(t, Wait)
	whole(t, Step)
	whole(t, Attempt)
	whole(t, Machine)
	whole(t, Top)
	whole(t, Agent)
	whole(t, Node)
	whole(t, Spec)
	whole(t, Lease)
	whole(t, Plan)
}

func whole[M proto.Message](t *testing.T, copied func(M) M) {
	t.Helper()
	var none M
	for depth := range 3 {
		m := wiretest.Full(none.ProtoReflect().New(), depth).(M)
		c := copied(m)
		if diff := cmp.Diff(m, c, protocmp.Transform()); diff != "" {
			t.Errorf("%T (-want +got):\n%s", m, diff)
		}
		if proto.Message(c) == proto.Message(m) {
			t.Errorf("%T is not copied", m)
		}
	}
}

// TestCopiesMayChange checks that changes that a copy allows leave the original alone.
func TestCopiesMayChange(t *testing.T) {
	m := wiretest.Full((&holdfastv1.Machine{}).ProtoReflect(), 3).(*holdfastv1.Machine)
	l := wiretest.Full((&internalv1.Lease{}).ProtoReflect(), 3).(*internalv1.Lease)
	wantM, wantL := proto.CloneOf(m), proto.CloneOf(l)
	c := Machine(m)
	c.MachineId, c.Status.ClusterRef, c.Node.Hostname, c.Agent.Hostname = "x", "x", "x", "x"
	c.Status.Conditions[0] = &holdfastv1.Condition{}
	Top(m).Status.Phase = holdfastv1.MachineStatus_RMA
	Lease(l).Gone = false
	if diff := cmp.Diff(wantM, m, protocmp.Transform()); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantL, l, protocmp.Transform()); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
}
