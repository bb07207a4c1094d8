package retention

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestGC checks that old records are removed on time, never early, and only by the leader. A former
// leader notices that it was replaced.
func TestGC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1", Term: 7}}})
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_RegisterPool{RegisterPool: &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "p-1"},
				TtlMs: 15_000}}})
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_DeregisterPool{DeregisterPool: &internalv1.DeregisterPool{PoolId: "p-1"}}})
		for id, expires := range map[string]time.Duration{"t-old": time.Hour, "t-young": 29 * 24 * time.Hour, "t-good": 0} {
			tok := &internalv1.StoredToken{Token: &holdfastv1.Token{TokenId: id, Name: id, Role: holdfastv1.Role_VIEWER},
				Sha256: []byte("a sum of 32 bytes, one of each " + id[2:3])}
			if expires > 0 {
				tok.Token.ExpiresAt = timestamppb.New(time.Now().Add(expires))
			}
			l.Must(&internalv1.Command{Op: &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{Token: tok}}})
		}
		const service = "550e8400-e29b-41d4-a716-446655440000"
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_RegisterService{RegisterService: &internalv1.RegisterService{TtlMs: 90_000,
				Target: &holdfastv1.ServiceTarget{
					Id: service, ServiceName: "tool", Host: "10.0.0.1", Port: 80, ServiceType: "tool-invoker"}}}})
		l.Must(&internalv1.Command{Epoch: 7,
			Op: &internalv1.Command_ExpireLeases{ExpireLeases: &internalv1.ExpireLeases{ClockMs: 100_000,
				Leases: []*internalv1.LeaseRef{{Kind: internalv1.LeaseRef_SERVICE, Id: service, Generation: 1}}}}})
		pool := func() holdfastv1.Pool_Status {
			synctest.Wait()
			p, _ := l.FSM.View().Pool("p-1")
			return p.GetStatus()
		}

		// Peers compare their clocks, so that the recorded one keeps pace.
		pace := make(chan struct{})
		defer close(pace)
		go func() {
			for {
				select {
				case <-pace:
					return
				case <-time.After(30 * time.Second): // sleep: in the bubble
				}
				l.Must(&internalv1.Command{Epoch: 7, Op: &internalv1.Command_CompareClocks{CompareClocks: &internalv1.CompareClocks{
					Voters: 1, Readings: []*internalv1.ClockReading{{PeerId: "n1", At: timestamppb.Now()}}}}})
			}
		}()
		stale := make(chan error, 1)
		go func() {
			stale <- NewGC(l, l.FSM, slog.New(slog.DiscardHandler)).Run(t.Context(), leader.Term{Epoch: 6})
		}()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		time.Sleep(4*time.Minute + 50*time.Second) // sleep: in the bubble
		if got := pool(); got != holdfastv1.Pool_DRAINING {
			t.Errorf("before five minutes: got %v", got)
		}
		time.Sleep(time.Minute) // sleep: in the bubble
		if err := <-stale; err == nil {
			t.Error("old janitor: got no error")
		}
		if got := pool(); got != holdfastv1.Pool_DRAINING {
			t.Errorf("after the old janitor: got %v", got)
		}
		go func() { done <- NewGC(l, l.FSM, slog.New(slog.DiscardHandler)).Run(ctx, leader.Term{Epoch: 7}) }()
		time.Sleep(21 * time.Second) // sleep: in the bubble
		if got := pool(); got != holdfastv1.Pool_ARCHIVED {
			t.Errorf("after five minutes: got %v", got)
		}
		if s, _ := l.FSM.View().Service(service); s.GetDeregistered() || s.GetActive() {
			t.Errorf("service missing for minutes: got %v", s)
		}
		time.Sleep(31 * 24 * time.Hour) // sleep: in the bubble
		synctest.Wait()
		var left []string
		for tok := range l.FSM.View().Tokens("") {
			left = append(left, tok.GetTokenId())
		}
		if s, ok := l.FSM.View().Service(service); ok && !fsm.AutoDeregistered(s) {
			t.Errorf("service missing for a month: got %v", s)
		}
		if len(left) != 2 || left[0] != "t-good" || left[1] != "t-young" {
			t.Errorf("got tokens %v, want t-good and t-young", left)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v at the end", err)
		}
	})
}

// TestGCShortTerms checks that a drained pool is archived even if each leader leads for less than
// the pause between passes.
func TestGCShortTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_RegisterPool{RegisterPool: &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "p-1"},
				TtlMs: 15_000}}})
		l.Must(&internalv1.Command{
			Op: &internalv1.Command_DeregisterPool{DeregisterPool: &internalv1.DeregisterPool{PoolId: "p-1"}}})
		for epoch := uint64(7); epoch < 7+33; epoch++ {
			l.Must(&internalv1.Command{
				Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1",
					Term: epoch}}})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := NewGC(l, l.FSM, slog.New(slog.DiscardHandler)).Run(ctx, leader.Term{Epoch: epoch}); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if p, _ := l.FSM.View().Pool("p-1"); p.GetStatus() != holdfastv1.Pool_ARCHIVED {
			t.Errorf("after five and a half minutes of changing leaders: got %v, want ARCHIVED", p.GetStatus())
		}
	})
}
