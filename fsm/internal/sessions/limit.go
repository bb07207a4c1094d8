package sessions

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// LimitOf returns the id of the lease that bounds an observed run. No run has such an id: see
// lex.ValidName.
func LimitOf(runID string) string { return runID + "/limit" }

// EndInstallLeases ends both leases of an observed run.
func EndInstallLeases(t *core.Tx, runID string) {
	t.EndLease(internalv1.LeaseRef_INSTALL, runID)
	t.EndLease(internalv1.LeaseRef_INSTALL, LimitOf(runID))
}
