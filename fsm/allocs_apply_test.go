//go:build !race && !rowguard

package fsm_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The allocation budgets of commands. The race detector and the guard of rows allocate too, so
// these tests are not in their builds.
const (
	budgetStart = 82 // a StartRun applied, with its history, event and audit
	budgetBatch = 56 // the same for a plan of one step, in an entry with others
)

func TestAllocsOfApply(t *testing.T) {
	for _, tt := range []struct {
		what, kind string
		batch      int
		budget     float64 // of one command
	}{
		{"a StartRun of a reboot, one of 64", "REBOOT", 64, budgetBatch},
		{"a StartRun of a repave, alone", "REPAVE", 1, budgetStart},
	} {
		const entries = 12 // one of AllocsPerRun, and then those that it counts
		p := registered(entries * tt.batch)
		p.Do(createToken("t-1", holdfastv1.Role_OPERATOR))
		next := startEntries(p, tt.kind, entries, tt.batch)
		got := testing.AllocsPerRun(entries-1, func() {
			p.Index++
			for _, r := range p.Apply(p.Index, p.Term, next[0]) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			next = next[1:]
		}) / float64(tt.batch)
		if got > tt.budget {
			t.Errorf("%s allocates %.1f times, want at most %v", tt.what, got, tt.budget)
		} else {
			t.Logf("%s allocates %.1f times of %v", tt.what, got, tt.budget)
		}
	}
}

// startEntries returns log entries of some starts each, every one on a machine of its own.
func startEntries(p *fsmtest.Peer, kind string, n, batch int) (entries [][]byte) {
	for i := range n {
		var cmds []*internalv1.Command
		for j := range batch {
			id := i*batch + j
			c := fsmtest.Command(&internalv1.StartRun{RunId: fmt.Sprintf("%08x", id), MachineId: fmt.Sprintf("m-%d", id),
				RequestId: fmt.Sprintf("request-%d", id), Type: kind, CheckedProvider: "fake",
				DefaultTimeoutSeconds: 600, DefaultMaxRetries: 3})
			c.FeatureLevel, c.Time, c.Principal = fsm.FeatureLevel, timestamppb.New(p.Now), "bench"
			c.Origin = &internalv1.Origin{Source: "10.20.30.40:53412", Peer: "p1",
				Method: "/holdfast.v1.RunService/StartRun", RequestId: "0123456789abcdef",
				TokenId: "t-1", Role: holdfastv1.Role_OPERATOR}
			cmds = append(cmds, c)
		}
		entries = append(entries, fsmtest.Encode(cmds...))
	}
	return entries
}
