//go:build linux

package bmclab

import (
	"fmt"
	"sync"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// TestNoSessionIsLeft makes 1,000 operations on a BMC with three peers, kills a leader meanwhile,
// and stops all peers gracefully. No session may be left, and the load on the BMC must be limited
// throughout.
func TestNoSessionIsLeft(t *testing.T) {
	t.Parallel()
	const systems, rounds = 8, 126 // each run reads once
	l := open(t)
	var ids []string
	for i := range systems {
		ids = append(ids, fmt.Sprintf("node%d", i+1))
	}
	b := l.Redfish(nil, ids...)
	if err := b.Quirks(t.Context(), redfishtest.Quirks{SessionLimit: 8}); err != nil {
		t.Fatal(err)
	}
	s := openSite(t)
	for _, id := range ids {
		s.register(id, b.Path(id))
	}
	leader := s.leader()
	var all sync.WaitGroup
	var kill sync.Once
	for _, id := range ids {
		all.Go(func() {
			for round := range rounds {
				if round == rounds/2 {
					kill.Do(func() {
						if err := leader.Kill(); err != nil {
							t.Error(err)
						}
					})
				}
				run, err := s.client.Runs().StartRun(t.Context(), &holdfastv1.StartRunRequest{RequestId: fmt.Sprint(id, round),
					MachineId: id, PlanId: "plan/inspect"})
				if err == nil {
					run, err = s.client.WaitRun(t.Context(), run.GetRunId())
				}
				if err != nil || run.GetPhase() != holdfastv1.Run_SUCCEEDED {
					t.Errorf("run %d on %s: got %s, %v %v", round, id, run.GetPhase(), run.GetError(), err)
					return
				}
			}
		})
	}
	all.Wait()
	during, err := b.Seen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if leader == s.leader() || leader.Running() {
		t.Error("the leader was not replaced: nothing was tested")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := b.Seen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests, %d logins; %d sessions while peers run, %d when they have stopped", after.Served, after.Logins,
		during.Sessions, after.Sessions)
	if during.Sessions > 1 || after.Sessions != 0 {
		t.Errorf("got %d sessions while peers run and %d after they have stopped, want at most 1 and 0", during.Sessions,
			after.Sessions)
	}
	if after.Served < 1000 || after.Logins > 20 {
		t.Errorf("got %d requests and %d logins, want at least 1,000, and a login for each leader and few more",
			after.Served, after.Logins)
	}
	if after.Reads > 2+1 || after.Writes > 1+1 { // a request of a dead leader may still be in progress
		t.Errorf("got %d reads and %d writes at once, want at most 2 and 1", after.Reads, after.Writes)
	}
}
