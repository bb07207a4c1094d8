package lease_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// However much the signs of life of one moment bring along, they fit into what Raft takes: one that does not would take all of its batch
// with it, and again with each try.
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
		say("huge", &internalv1.Renewal{AgentVersion: strings.Repeat("v", entrySize)}) // the edge lets none of these in
		for i := range machines {
			say(fmt.Sprintf("m-%d", i), &internalv1.Renewal{
				AgentVersion: strings.Repeat("v", 256), PoolName: strings.Repeat("p", 256), ProviderName: strings.Repeat("q", 256),
			})
		}
		for range machines + 1 {
			if got := <-answers; got != renewed {
				t.Fatalf("got %v, want all of them %v", got, renewed)
			}
		}
		if l.tooLarge > 0 {
			t.Errorf("%d commands were larger than an entry may be", l.tooLarge)
		}
	})
}
