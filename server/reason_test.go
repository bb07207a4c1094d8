package server

import (
	"strings"
	"testing"
	"unicode/utf8"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// TestLongReasons checks that a report with a very long reason, such as a stack trace, is
// recorded with a truncated reason.
func TestLongReasons(t *testing.T) {
	_, c := serve(t, nodetest.New(), Config{})
	ctx, long := testCtx(t), strings.Repeat("é", request.MaxComment) // its limit is within a character
	registry, pools := holdfastv1.NewRegistryServiceClient(c.conn), holdfastv1.NewPoolServiceClient(c.conn)
	s, err := registry.RegisterService(ctx,
		&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{ServiceName: "s", Host: "10.0.0.1", Port: 9090,
			ServiceType: "tool-invoker"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err = registry.UpdateServiceState(ctx, &holdfastv1.UpdateServiceStateRequest{Id: s.GetTarget().GetId(),
		State: &holdfastv1.ServiceState{Reason: "x" + long}})
	if err != nil {
		t.Fatal(err)
	}
	last := s.GetStates()[len(s.GetStates())-1]
	if got := last.GetReason(); last.GetHealthy() || len(got) != request.MaxComment-1 || !utf8.ValidString(got) {
		t.Errorf("state: got %t, %d bytes, want it unhealthy for %d whole characters",
			last.GetHealthy(), len(got), request.MaxComment/2)
	}
	if _, err := pools.RegisterPool(ctx,
		&holdfastv1.RegisterPoolRequest{Pool: &holdfastv1.Pool{PoolId: "p-1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := pools.DeregisterPool(ctx, &holdfastv1.DeregisterPoolRequest{PoolId: "p-1", Reason: long}); err != nil {
		t.Fatal(err)
	}
	if p, err := pools.GetPool(ctx, &holdfastv1.GetPoolRequest{PoolId: "p-1"}); err != nil ||
		p.GetStatus() != holdfastv1.Pool_DRAINING || !utf8.ValidString(p.GetStatusReason()) {
		t.Errorf("pool: %v, %v, want it deregistered", p, err)
	}
}
