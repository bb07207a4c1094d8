package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// tx applies one command. A command checks first and writes last, so one that is refused has
// changed nothing.
type tx struct {
	*state
	codec   *logCodec
	decoded *planCache
	index   uint64
	cmd     *internalv1.Command
	now     *timestamppb.Timestamp // never decreases, even if a proposer's clock does
}

func newTx(f *FSM, index uint64, c *internalv1.Command) *tx {
	s := f.state
	s.tick(c)
	return &tx{state: s, codec: f.own, decoded: f.decoded, index: index, cmd: c, now: proto.CloneOf(s.meta.GetNow())}
}

// perform applies the command. If the command has an origin, its caller's rights are checked
// first, and the result is recorded in an audit event.
func (t *tx) perform() (proto.Message, *Error) {
	if t.cmd.GetOrigin() == nil {
		return t.dispatch()
	}
	about := t.subject() // read before the command changes anything
	value, err := proto.Message(nil), t.checkOrigin(about)
	if err == nil {
		value, err = t.dispatch()
	}
	t.addAudit(about, value, err)
	return value, err
}

func (t *tx) dispatch() (proto.Message, *Error) {
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_LeaderEstablished:
		return nil, t.leaderEstablished(op.LeaderEstablished)
	case *internalv1.Command_InitCluster:
		return nil, t.initCluster(op.InitCluster)
	case *internalv1.Command_RaiseFeatureLevel:
		return nil, t.raiseFeatureLevel(op.RaiseFeatureLevel)
	case *internalv1.Command_PutPeer:
		return nil, t.putPeer(op.PutPeer)
	case *internalv1.Command_RemovePeer:
		return nil, t.removePeer(op.RemovePeer)
	case *internalv1.Command_Beat:
		return nil, nil
	case *internalv1.Command_NoteBackup:
		return nil, t.noteBackup(op.NoteBackup)
	case *internalv1.Command_StageBackup:
		return nil, t.stageBackup(op.StageBackup)
	case *internalv1.Command_RestoreBackup:
		return result(t.restoreBackup(op.RestoreBackup))
	case *internalv1.Command_SetAutopilot:
		return nil, t.setAutopilot(op.SetAutopilot)
	case *internalv1.Command_ResetClock:
		return nil, t.resetClock(op.ResetClock)
	case *internalv1.Command_RegisterMachine:
		return result(t.registerMachine(op.RegisterMachine))
	case *internalv1.Command_UpdateMachine:
		return result(t.updateMachine(op.UpdateMachine))
	case *internalv1.Command_SetMachinePhase:
		return result(t.setMachinePhase(op.SetMachinePhase))
	case *internalv1.Command_RetryBmc:
		return result(t.retryBMC(op.RetryBmc))
	case *internalv1.Command_DeleteMachine:
		return nil, t.deleteMachine(op.DeleteMachine)
	case *internalv1.Command_CreatePlan:
		return result(t.createPlan(op.CreatePlan))
	case *internalv1.Command_DeletePlan:
		return nil, t.deletePlan(op.DeletePlan)
	case *internalv1.Command_PutImage:
		return result(t.putImage(op.PutImage))
	case *internalv1.Command_DeleteImage:
		return nil, t.deleteImage(op.DeleteImage)
	case *internalv1.Command_ReleasePlan:
		return result(t.releasePlan(op.ReleasePlan))
	case *internalv1.Command_StartRun:
		return result(t.startRun(op.StartRun))
	case *internalv1.Command_CancelRun:
		return result(t.cancelRun(op.CancelRun))
	}
	return t.dispatchAccess()
}

// dispatchAccess applies the commands on tokens, secrets, webhooks and denied calls.
func (t *tx) dispatchAccess() (proto.Message, *Error) {
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_CreateToken:
		return result(t.createToken(op.CreateToken))
	case *internalv1.Command_RevokeToken:
		return result(t.revokeToken(op.RevokeToken))
	case *internalv1.Command_PutSecret:
		return result(t.putSecret(op.PutSecret))
	case *internalv1.Command_DeleteSecret:
		return nil, t.deleteSecret(op.DeleteSecret)
	case *internalv1.Command_ResealSecrets:
		return nil, t.resealSecrets(op.ResealSecrets)
	case *internalv1.Command_PutWebhook:
		return result(t.putWebhook(op.PutWebhook))
	case *internalv1.Command_DeleteWebhook:
		return nil, t.deleteWebhook(op.DeleteWebhook)
	case *internalv1.Command_RecordDenials:
		return nil, t.recordDenials(op.RecordDenials)
	}
	return t.dispatchFleet()
}

// dispatchFleet applies the commands of agents, nodes, pools, services and installers.
func (t *tx) dispatchFleet() (proto.Message, *Error) {
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_CreateAgentMachine:
		return result(t.createAgentMachine(op.CreateAgentMachine))
	case *internalv1.Command_RegisterAgent:
		return result(t.registerAgent(op.RegisterAgent))
	case *internalv1.Command_CreateNode:
		return result(t.createNode(op.CreateNode))
	case *internalv1.Command_UpdateNode:
		return result(t.updateNode(op.UpdateNode))
	case *internalv1.Command_TransitionNode:
		return result(t.transitionNode(op.TransitionNode))
	case *internalv1.Command_ReportNode:
		return result(t.reportNode(op.ReportNode))
	case *internalv1.Command_CreatePool:
		return result(t.createPool(op.CreatePool))
	case *internalv1.Command_DeletePool:
		return nil, t.deletePool(op.DeletePool)
	case *internalv1.Command_DeleteProvider:
		return nil, t.deleteProvider(op.DeleteProvider)
	case *internalv1.Command_RegisterPool:
		return result(t.registerPool(op.RegisterPool))
	case *internalv1.Command_DeregisterPool:
		return nil, t.deregisterPool(op.DeregisterPool)
	case *internalv1.Command_RegisterProvider:
		return result(t.registerProvider(op.RegisterProvider))
	case *internalv1.Command_RegisterService:
		return result(t.registerService(op.RegisterService))
	case *internalv1.Command_UpdateServiceState:
		return result(t.updateServiceState(op.UpdateServiceState))
	case *internalv1.Command_DeregisterService:
		return result(t.deregisterService(op.DeregisterService))
	case *internalv1.Command_BootInstall:
		return result(t.bootInstall(op.BootInstall))
	case *internalv1.Command_ReportInstall:
		return result(t.reportInstall(op.ReportInstall))
	case *internalv1.Command_AppendInstallLog:
		return result(t.appendInstallLog(op.AppendInstallLog))
	}
	return t.dispatchExecutor()
}

// dispatchExecutor applies the commands of leader tasks, which carry the epoch of their
// leader. Commands of a former leader are refused (docs/reliability.md).
func (t *tx) dispatchExecutor() (proto.Message, *Error) {
	if e, now := t.cmd.GetEpoch(), t.meta.GetEpoch(); e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_ObserveConditions:
		return nil, t.observeConditions(op.ObserveConditions)
	case *internalv1.Command_NoteDevice:
		return nil, t.noteDevice(op.NoteDevice)
	case *internalv1.Command_BeginAttempt:
		return result(t.beginAttempt(op.BeginAttempt))
	case *internalv1.Command_NoteProgress:
		return result(t.noteProgress(op.NoteProgress))
	case *internalv1.Command_EndAttempt:
		return result(t.endAttempt(op.EndAttempt))
	case *internalv1.Command_AbortRun:
		return result(t.abortRun(op.AbortRun))
	case *internalv1.Command_AppendRunLogs:
		return nil, t.appendRunLogs(op.AppendRunLogs)
	case *internalv1.Command_CompactRunLog:
		return nil, t.compactRunLog(op.CompactRunLog)
	case *internalv1.Command_ArchiveRun:
		return nil, t.archiveRun(op.ArchiveRun)
	case *internalv1.Command_DropArchivedRun:
		return nil, t.dropArchivedRun(op.DropArchivedRun)
	case *internalv1.Command_NoteDelivery:
		return nil, t.noteDelivery(op.NoteDelivery)
	case *internalv1.Command_DropTokens:
		return nil, t.dropTokens(op.DropTokens)
	case *internalv1.Command_PutSigningKeys:
		return nil, t.putSigningKeys(op.PutSigningKeys)
	case *internalv1.Command_CheckpointLeases:
		return nil, t.checkpointLeases(op.CheckpointLeases)
	case *internalv1.Command_ExpireLeases:
		return nil, t.expireLeases(op.ExpireLeases)
	case *internalv1.Command_SweepPools:
		return nil, t.sweepPools(op.SweepPools)
	case *internalv1.Command_OpenInstall:
		return result(t.openInstall(op.OpenInstall))
	case *internalv1.Command_NoteInstall:
		return result(t.noteInstallSession(op.NoteInstall))
	}
	panic("command was understood but has no handler") // a test dispatches every operation
}

// result returns m as a proto.Message. On an error it returns a nil interface, not one that
// holds a nil P.
func result[P proto.Message](m P, err *Error) (proto.Message, *Error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}
