package notes

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Installs stores the install sessions of machines in the replicated state. Only the
// leader can open one, under its epoch.
type Installs struct {
	proposer task.Proposer
	state    task.State
}

// NewInstalls returns the install sessions of a peer.
func NewInstalls(p task.Proposer, s task.State) *Installs { return &Installs{proposer: p, state: s} }

// Session returns the last session of a machine, or nil. It reads the leader's own state
// and does not block.
func (n *Installs) Session(machineID string) *holdfastv1.Install {
	i, ok := n.state.View().Install(machineID)
	if !ok {
		return nil
	}
	return i
}

// Open opens the session of an attempt. The error has class Unsupported if the machine
// cannot have a session.
func (n *Installs) Open(ctx context.Context, op providers.Op, image, disk, cloudInit string, wipe bool) error {
	cmd := &internalv1.Command{
		Epoch: op.Epoch,
		Op: &internalv1.Command_OpenInstall{OpenInstall: &internalv1.OpenInstall{
			RunId:     op.RunID,
			Step:      op.Step,
			Attempt:   op.Attempt,
			Image:     image,
			Disk:      disk,
			CloudInit: cloudInit,
			Wipe:      wipe,
		}},
	}
	_, err := n.proposer.Apply(ctx, cmd)
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Code != fsm.Aborted {
		return providers.Errorf(providers.Unsupported, "open the install session", "%w", err)
	}
	if err != nil {
		return providers.Errorf(providers.Transient, "open the install session", "%w", err)
	}
	return nil
}

// Note records an observation of the machine of a session. It sets the session in seen.
func (n *Installs) Note(ctx context.Context, i *holdfastv1.Install, seen *internalv1.NoteInstall) error {
	seen.RunId, seen.Step, seen.Attempt = i.GetRunId(), i.GetStep(), i.GetAttempt()
	cmd := &internalv1.Command{
		Epoch: n.state.View().Meta().GetEpoch(),
		Op:    &internalv1.Command_NoteInstall{NoteInstall: seen},
	}
	if _, err := n.proposer.Apply(ctx, cmd); err != nil {
		return providers.Errorf(providers.Transient, "note the install of "+i.GetMachineId(), "%w", err)
	}
	return nil
}
