package lease_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A keepalive with another pool or provider is for an unknown machine. An accepted one is answered
// with the machine's own pool.
func TestKeepaliveOfAnotherPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed) // the leader is established
		for _, tt := range []struct {
			pool, provider string
			want           internalv1.RenewalAnswer_Outcome
			answered       string
		}{
			{"gpu", "generic", renewed, "gpu"}, {"gpu", "", renewed, "gpu"}, {"", "", renewed, "gpu"},
			{"other", "generic", unknown, ""}, {"other", "", unknown, ""}, {"gpu", "lambda", unknown, ""},
		} {
			answer := make(chan *internalv1.RenewalAnswer, 1)
			l.engine.Load().Take(&internalv1.Renewal{
				Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_MACHINE,
					Id: "m-1"}, PoolName: tt.pool, ProviderName: tt.provider,
			}, func(a *internalv1.RenewalAnswer) { answer <- a })
			if a := <-answer; a.GetOutcome() != tt.want || a.GetPoolName() != tt.answered {
				t.Errorf("pool %q, provider %q: got %v in pool %q, want %v in %q", tt.pool, tt.provider, a.GetOutcome(),
					a.GetPoolName(), tt.want, tt.answered)
			}
		}
	})
}

// TestKeepaliveAfterMove checks that the engine notices that an operator has moved a machine whose
// owner it has cached.
func TestKeepaliveAfterMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.must(&internalv1.Command{
			Op: &internalv1.Command_CreatePool{CreatePool: &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "cpu"}}}})
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		l.wantHeartbeat("m-1", renewed)
		l.must(&internalv1.Command{Op: &internalv1.Command_UpdateMachine{UpdateMachine: &internalv1.UpdateMachine{
			Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Pool: "cpu"}},
			Paths:   []string{"spec.pool"}}}})
		for pool, want := range map[string]internalv1.RenewalAnswer_Outcome{"gpu": unknown, "cpu": renewed, "": renewed} {
			answer := make(chan *internalv1.RenewalAnswer, 1)
			l.engine.Load().Take(&internalv1.Renewal{
				Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_MACHINE, Id: "m-1"}, PoolName: pool,
			}, func(a *internalv1.RenewalAnswer) { answer <- a })
			if a := <-answer; a.GetOutcome() != want || want == renewed && a.GetPoolName() != "cpu" {
				t.Errorf("pool %q after the move: got %v in pool %q, want %v in cpu", pool, a.GetOutcome(), a.GetPoolName(), want)
			}
		}
	})
}
