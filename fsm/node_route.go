package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// noteFailedInstall records a failed install in the node's record, as reports of an installer
// do. The caller stores the machine.
func noteFailedInstall(m *holdfastv1.Machine, attempt int32, why string) {
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	m.Node.InstallAttempts = max(m.GetNode().GetInstallAttempts(), attempt)
	m.Node.LastInstallError = lex.Clip(lex.First(why, m.GetNode().GetLastInstallError()), maxNote)
}
