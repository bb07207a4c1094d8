package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestPausedLeader checks that after a pause a leader answers nothing from memory until a commit
// has proven that it still leads.
func TestPausedLeader(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, 1)
			l.term = 1
			l.must(&internalv1.Command{
				Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}}})
			cut := false
			p := proposer{lab: l, cut: &cut}
			// Nothing reads the lease clock between heartbeats, so the engine sees a pause.
			e := lease.NewEngine(lease.Config{Sweep: time.Hour, ClockEvery: time.Hour}, p, p)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx, leader.NewTerm(1, func(context.Context) error { return nil })) }()
			synctest.Wait()
			l.engine.Store(e)
			l.register("m-1")
			renew := func() (internalv1.RenewalAnswer_Outcome, bool) {
				answer := make(chan internalv1.RenewalAnswer_Outcome, 1)
				e.Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: "m-1"}},
					func(a *internalv1.RenewalAnswer) { answer <- a.GetOutcome() })
				select {
				case got := <-answer:
					return got, true
				default:
					return <-answer, false
				}
			}
			renew()
			pass(100 * time.Millisecond)
			if got, memory := renew(); got != renewed || !memory {
				t.Errorf("without a pause: got %v, from memory %v", got, memory)
			}
			pass(5 * time.Second)
			l.mu.Lock()
			cut = replaced
			l.mu.Unlock()
			want := renewed
			if replaced {
				want = internalv1.RenewalAnswer_NOT_LEADER
			}
			if got, memory := renew(); got != want || memory {
				t.Errorf("after a pause (replaced: %v): got %v, from memory %v, want %v, false", replaced, got, memory, want)
			}
			pass(100 * time.Millisecond)
			if got, memory := renew(); memory != !replaced {
				t.Errorf("next heartbeat (replaced: %v): got %v, from memory %v", replaced, got, memory)
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("engine: got %v", err)
			}
		})
	}
}

// TestClockAfterLastLease checks that the expiry of the last lease commits the lease
// clock, and that the engine's clock does not fall behind it.
func TestClockAfterLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		for range 5 { // commits of the clock come at different times
			l.register("m-1")
			deadline := time.Now().Add(machineTTL + time.Minute)
			for l.agentState("m-1") != holdfastv1.Agent_EXPIRED && time.Now().Before(deadline) {
				pass(10 * time.Millisecond)
			}
			if got := l.agentState("m-1"); got != holdfastv1.Agent_EXPIRED {
				t.Fatalf("agent: got %v, want EXPIRED", got)
			}
			pass(time.Second)
			got, record := l.engine.Load().Clock(), time.Duration(l.state.View().LeaseClock())*time.Millisecond
			if got < record {
				t.Errorf("lease clock: got %v, want at least the recorded %v", got, record)
			}
		}
		l.depose()
	})
}
