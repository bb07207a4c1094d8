package fsm_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestServiceStateOvertaken checks that a late duplicate of an older state does not undo the
// newest one.
func TestServiceStateOvertaken(t *testing.T) {
	p := fsmtest.NewPeer()
	id := "11111111-2222-3333-4444-555555555555"
	do(t, p, &internalv1.RegisterService{Target: &holdfastv1.ServiceTarget{Id: id, ServiceName: "s", Host: "h", Port: 1,
		ServiceType: "t"}, TtlMs: 60000})
	state := func(after time.Duration, healthy bool, reason string) *internalv1.UpdateServiceState {
		return &internalv1.UpdateServiceState{Id: id,
			State: &holdfastv1.ServiceState{Timestamp: timestamppb.New(p.Now.Add(after)), Healthy: healthy, Reason: reason}}
	}
	up, full := state(time.Second, true, "up"), state(2*time.Second, false, "disk full")
	do(t, p, up)
	do(t, p, full)
	do(t, p, up) // the first try, which arrives after its retry
	svc, _ := p.View().Service(id)
	states := svc.GetStates()
	if last := states[len(states)-1]; last.GetReason() != "disk full" {
		t.Errorf("the newest state is %q, want %q", last.GetReason(), "disk full")
	}
}
