package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestExplainInstall checks the explanation of an observed install: its deadline while it
// waits for its installer, and the reason after it has failed.
func TestExplainInstall(t *testing.T) {
	n := nodetest.New()
	_, c := serve(t, n, Config{})
	why := func() *holdfastv1.MachineExplanation {
		t.Helper()
		e, err := c.ExplainMachine(testCtx(t), &holdfastv1.ExplainMachineRequest{MachineId: "n-1"})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	n.Do(t, &internalv1.CreateNode{MachineId: "n-1", MacAddress: macA})
	n.Do(t, &internalv1.TransitionNode{Id: "n-1", State: holdfastv1.Node_PENDING})
	n.Do(t, &internalv1.ReportNode{RunId: "run-1", Report: &holdfastv1.ReportNodeRequest{MacAddress: macA,
		InstallationStatus: "started"}})
	e := why()
	if want := n.Peer.Now.Add(2 * time.Hour); e.GetWaitingFor() != "the installer's reports" ||
		!e.GetDeadline().AsTime().Equal(want) || !e.GetNextActionAt().AsTime().Equal(want) {
		t.Errorf("got %v, want the deadline %v", e, want)
	}
	n.Do(t, &internalv1.ExpireLeases{ClockMs: 7_200_000,
		Leases: []*internalv1.LeaseRef{{Kind: internalv1.LeaseRef_INSTALL, Id: "run-1", Generation: 1}}})
	e = why()
	if !strings.Contains(e.GetSummary(),
		"repave failed at install: its installer has not reported for 2h0m0s") ||
		e.GetDeadline() != nil ||
		!slices.Contains(e.GetSuggestions(), "holdfast node state n-1 pending --force") {
		t.Errorf("got %v", e)
	}
}
