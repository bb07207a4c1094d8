package lease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Concurrent heartbeats of any size fit into log entries. A command that is too large would fail
// with its whole batch, and again with each retry.
func TestBatchesFitIntoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		const machines = 1000
		answers := make(chan internalv1.RenewalAnswer_Outcome, machines)
		say := func(id string, rn *internalv1.Renewal) {
			rn.Lease = &internalv1.LeaseRef{Kind: machine, Id: id}
			l.engine.Load().Take(rn, func(a *internalv1.RenewalAnswer) { answers <- a.GetOutcome() })
		}
		for i := range machines {
			l.register(fmt.Sprintf("m-%d", i))
		}
		l.register("huge")
		say("huge", &internalv1.Renewal{AgentVersion: strings.Repeat("v", entrySize)}) // larger than the API accepts
		for i := range machines {
			say(fmt.Sprintf("m-%d", i), &internalv1.Renewal{
				AgentVersion: strings.Repeat("v", 3*256), PoolName: "gpu",
			})
		}
		for range machines + 1 {
			if got := <-answers; got != renewed {
				t.Fatalf("got %v, want all of them %v", got, renewed)
			}
		}
		if l.tooLarge > 0 {
			t.Errorf("got %d commands larger than an entry, want 0", l.tooLarge)
		}
	})
}

// Leases that expire at the same time are expired in commands that fit into log entries.
func TestExpiriesFitIntoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		const pools = 4090
		id := func(i int) string { return fmt.Sprintf("p-%0126d", i) }
		for i := range pools {
			l.must(&internalv1.Command{Op: &internalv1.Command_RegisterPool{RegisterPool: &internalv1.RegisterPool{
				Pool: &holdfastv1.Pool{PoolId: id(i)}, TtlMs: poolTTL.Milliseconds()}}})
		}
		pass(2 * time.Minute)
		for i := range pools {
			if lease, ok := l.state.View().Lease(internalv1.LeaseRef_POOL, id(i)); ok && lease.GetExpiredAt() == nil {
				t.Fatalf("lease of pool %d: got it valid; %d commands larger than an entry", i, l.tooLarge)
			}
		}
	})
}

// Large heartbeats, in batches or alone, neither break the stream to the leader nor delay others.
func TestMessagesFitIntoTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		open := p1.shut()
		const n = 60
		say := func(id string, size int) <-chan answer {
			c := make(chan answer, 1)
			go func() {
				a, err := o.gateway.Renew(t.Context(), &internalv1.Renewal{
					Lease: &internalv1.LeaseRef{Kind: machine, Id: id}, AgentVersion: strings.Repeat("v", size),
				})
				c <- answer{outcome: a.GetOutcome(), err: err}
			}()
			return c
		}
		var all []<-chan answer
		for i := range n {
			o.register(fmt.Sprintf("m-%d", i))
			all = append(all, say(fmt.Sprintf("m-%d", i), 100<<10))
		}
		o.register("huge")
		huge := <-say("huge", 300<<10)
		if out, ok := errors.AsType[*outcome.Error](huge.err); !ok || !errors.Is(out, outcome.ErrTooLarge) ||
			out.Outcome != outcome.NotApplied {
			t.Errorf("heartbeat of 300 KiB: got %v, %v, want too large", huge.outcome, huge.err)
		}
		synctest.Wait()
		open()
		for i, c := range all {
			o.want(fmt.Sprintf("m-%d", i), <-c, renewed)
		}
		if requests, streams := p1.seen(); streams != 1 || len(requests) > n/5 {
			t.Errorf("got %d messages on %d streams, want a few on one", len(requests), streams)
		}
	})
}
