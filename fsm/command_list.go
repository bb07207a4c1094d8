package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// commandList declares every command of the Raft log, in the order of command.proto: its message,
// the rule that applies it, and its subject. A fenced command is refused unless it carries the
// epoch of the present leader (docs/reliability.md).
func commandList(stage *readStage) []command {
	return []command{
		changes((*internalv1.Command).GetLeaderEstablished, (*tx).leaderEstablished, ofCluster),
		changes((*internalv1.Command).GetInitCluster, (*tx).initCluster, ofCluster),
		changes((*internalv1.Command).GetRaiseFeatureLevel, (*tx).raiseFeatureLevel, ofCluster),
		changes((*internalv1.Command).GetPutPeer, (*tx).putPeer,
			byName("peers", func(c *internalv1.PutPeer) string { return c.GetPeer().GetId() })),
		changes((*internalv1.Command).GetRemovePeer, (*tx).removePeer, byName("peers", (*internalv1.RemovePeer).GetId)),
		changes((*internalv1.Command).GetBeat, func(*tx, *internalv1.Beat) *Error { return nil }, ofCluster),
		changes((*internalv1.Command).GetResetClock, (*tx).resetClock, whole[*internalv1.ResetClock]("clock")).since(Level2),

		answers((*internalv1.Command).GetRegisterMachine, (*tx).registerMachine, ofRegistration),
		answers((*internalv1.Command).GetUpdateMachine, (*tx).updateMachine, ofUpdate),
		answers((*internalv1.Command).GetSetMachinePhase, (*tx).setMachinePhase, ofMachine),
		changes((*internalv1.Command).GetDeleteMachine, (*tx).deleteMachine, ofMachine),
		changes((*internalv1.Command).GetObserveConditions, (*tx).observeConditions, ofCluster).fenced(),
		changes((*internalv1.Command).GetNoteDevice, (*tx).noteDevice, ofCluster).fenced(),
		answers((*internalv1.Command).GetRetryBmc, (*tx).retryBMC, ofMachine).since(Level2),

		answers((*internalv1.Command).GetCreatePlan, (*tx).createPlan,
			byName("plans", func(c *internalv1.CreatePlan) string { return c.GetPlan().GetPlanId() })),
		changes((*internalv1.Command).GetDeletePlan, (*tx).deletePlan, ofPlan),
		answers((*internalv1.Command).GetReleasePlan, (*tx).releasePlan, ofPlan),

		answers((*internalv1.Command).GetStartRun, (*tx).startRun, (*tx).startSubject),
		answers((*internalv1.Command).GetCancelRun, (*tx).cancelRun, ofRunsMachine),
		answers((*internalv1.Command).GetBeginAttempt, (*tx).beginAttempt, ofRun).fenced(),
		answers((*internalv1.Command).GetNoteProgress, (*tx).noteProgress, ofRun).fenced(),
		answers((*internalv1.Command).GetEndAttempt, (*tx).endAttempt, ofRun).fenced(),
		answers((*internalv1.Command).GetAbortRun, (*tx).abortRun, ofRun).fenced(),
		changes((*internalv1.Command).GetAppendRunLogs, (*tx).appendRunLogs, ofCluster).fenced(),
		changes((*internalv1.Command).GetCompactRunLog, (*tx).compactRunLog, ofRun).fenced(),
		changes((*internalv1.Command).GetArchiveRun, (*tx).archiveRun, ofRun).fenced(),
		changes((*internalv1.Command).GetDropArchivedRun, (*tx).dropArchivedRun, ofRun).fenced(),

		answers((*internalv1.Command).GetCreateToken, (*tx).createToken,
			byName("tokens", func(c *internalv1.CreateToken) string { return c.GetToken().GetToken().GetTokenId() })),
		answers((*internalv1.Command).GetRevokeToken, (*tx).revokeToken,
			byName("tokens", (*internalv1.RevokeToken).GetTokenId)),
		changes((*internalv1.Command).GetDropTokens, (*tx).dropTokens, ofCluster).fenced(),
		answers((*internalv1.Command).GetPutSecret, (*tx).putSecret,
			byName("secrets", func(c *internalv1.PutSecret) string { return c.GetSecret().GetSecret().GetName() })),
		changes((*internalv1.Command).GetDeleteSecret, (*tx).deleteSecret,
			byName("secrets", (*internalv1.DeleteSecret).GetName)),
		changes((*internalv1.Command).GetResealSecrets, (*tx).resealSecrets, whole[*internalv1.ResealSecrets]("secrets")),
		changes((*internalv1.Command).GetPutSigningKeys, (*tx).putSigningKeys, ofCluster).fenced(),
		changes((*internalv1.Command).GetRecordDenials, (*tx).recordDenials, whole[*internalv1.RecordDenials]("audit")),

		changes((*internalv1.Command).GetCheckpointLeases, (*tx).checkpointLeases, ofCluster).fenced(),
		changes((*internalv1.Command).GetExpireLeases, (*tx).expireLeases, ofCluster).fenced(),

		answers((*internalv1.Command).GetCreateAgentMachine, (*tx).createAgentMachine, ofAgentMachine),
		answers((*internalv1.Command).GetRegisterAgent, (*tx).registerAgent, ofAgent),

		answers((*internalv1.Command).GetCreateNode, (*tx).createNode, ofNewNode),
		answers((*internalv1.Command).GetUpdateNode, (*tx).updateNode, ofNode),
		answers((*internalv1.Command).GetTransitionNode, (*tx).transitionNode, ofNode),
		answers((*internalv1.Command).GetReportNode, (*tx).reportNode, ofReport),

		answers((*internalv1.Command).GetCreatePool, (*tx).createPool, ofNewPool),
		changes((*internalv1.Command).GetDeletePool, (*tx).deletePool, ofPool),
		answers((*internalv1.Command).GetRegisterPool, (*tx).registerPool, ofNewPool),
		changes((*internalv1.Command).GetDeregisterPool, (*tx).deregisterPool, ofPool),
		answers((*internalv1.Command).GetRegisterProvider, (*tx).registerProvider, ofProvider),
		changes((*internalv1.Command).GetSweepPools, (*tx).sweepPools, ofCluster).fenced(),
		changes((*internalv1.Command).GetDeleteProvider, (*tx).deleteProvider, ofDeletedProvider).since(Level2),

		answers((*internalv1.Command).GetRegisterService, (*tx).registerService, ofService),
		answers((*internalv1.Command).GetUpdateServiceState, (*tx).updateServiceState,
			byName("services", (*internalv1.UpdateServiceState).GetId)),
		answers((*internalv1.Command).GetDeregisterService, (*tx).deregisterService, ofDeregistered),

		answers((*internalv1.Command).GetOpenInstall, (*tx).openInstall, ofRun).fenced(),
		answers((*internalv1.Command).GetBootInstall, (*tx).bootInstall, ofMachine),
		answers((*internalv1.Command).GetReportInstall, (*tx).reportInstall, ofInstaller),
		answers((*internalv1.Command).GetAppendInstallLog, (*tx).appendInstallLog, ofInstaller),
		answers((*internalv1.Command).GetNoteInstall, (*tx).noteInstallSession, ofRun).fenced(),

		answers((*internalv1.Command).GetPutImage, (*tx).putImage,
			byName("images", func(c *internalv1.PutImage) string { return c.GetImage().GetName() })),
		changes((*internalv1.Command).GetDeleteImage, (*tx).deleteImage, byName("images", (*internalv1.DeleteImage).GetName)),

		changes((*internalv1.Command).GetStageBackup, (*tx).stageBackup, ofRestore),
		answers((*internalv1.Command).GetRestoreBackup,
			func(t *tx, c *internalv1.RestoreBackup) (*holdfastv1.RestoreSnapshotResponse, *Error) {
				return t.restoreBackup(stage, c)
			}, ofRestore),
		changes((*internalv1.Command).GetNoteBackup, (*tx).noteBackup, ofBackup),
		changes((*internalv1.Command).GetSetAutopilot, (*tx).setAutopilot, whole[*internalv1.SetAutopilot]("autopilot")),

		answers((*internalv1.Command).GetPutWebhook, (*tx).putWebhook,
			byName("webhooks", func(c *internalv1.PutWebhook) string { return c.GetWebhook().GetName() })),
		changes((*internalv1.Command).GetDeleteWebhook, (*tx).deleteWebhook,
			byName("webhooks", (*internalv1.DeleteWebhook).GetName)),
		changes((*internalv1.Command).GetNoteDelivery, (*tx).noteDelivery,
			byName("webhooks", (*internalv1.NoteDelivery).GetName)).fenced(),
	}
}

// command declares one command of the Raft log.
type command struct {
	message    protoreflect.FullName // of the operation
	apply      func(*tx, *internalv1.Command) (proto.Message, *Error)
	subject    func(*tx, *internalv1.Command) subject // read before the command changes anything
	needsEpoch bool                                   // only the present leader's tasks may propose it
	level      uint32                                 // the feature level that introduced it
}

// changes declares a command whose result is only success or an error.
func changes[C proto.Message](
	get func(*internalv1.Command) C, apply func(*tx, C) *Error, about func(*tx, C) subject,
) command {
	return declare(get, func(t *tx, c C) (proto.Message, *Error) { return nil, apply(t, c) }, about)
}

// answers declares a command whose result has a value.
func answers[C, R proto.Message](
	get func(*internalv1.Command) C, apply func(*tx, C) (R, *Error), about func(*tx, C) subject,
) command {
	return declare(get, func(t *tx, c C) (proto.Message, *Error) {
		value, err := apply(t, c)
		if err != nil {
			return nil, err // without a value, not even a typed nil
		}
		return value, nil
	}, about)
}

func declare[C proto.Message](
	get func(*internalv1.Command) C, apply func(*tx, C) (proto.Message, *Error), about func(*tx, C) subject,
) command {
	var message C
	return command{
		message: message.ProtoReflect().Descriptor().FullName(),
		apply:   func(t *tx, c *internalv1.Command) (proto.Message, *Error) { return apply(t, get(c)) },
		subject: func(t *tx, c *internalv1.Command) subject { return about(t, get(c)) },
		level:   Level1,
	}
}

// fenced returns the declaration of a command that is refused unless it carries the present epoch.
func (c command) fenced() command {
	c.needsEpoch = true
	return c
}

// since returns the declaration of a command that a feature level introduced.
func (c command) since(level uint32) command {
	c.level = level
	return c
}

// commandSet finds the declaration of a command.
type commandSet struct {
	op    protoreflect.OneofDescriptor
	byNum map[protoreflect.FieldNumber]command
}

func newCommandSet(stage *readStage) *commandSet {
	byMessage := map[protoreflect.FullName]command{}
	for _, c := range commandList(stage) {
		byMessage[c.message] = c
	}
	op := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op")
	s := &commandSet{op: op, byNum: map[protoreflect.FieldNumber]command{}}
	for i := range op.Fields().Len() {
		f := op.Fields().Get(i)
		if c, ok := byMessage[f.Message().FullName()]; ok {
			s.byNum[f.Number()] = c
		}
	}
	return s
}

// of returns the declaration of a command. Its operation is known: see understood.
func (s *commandSet) of(c *internalv1.Command) (command, bool) {
	field := c.ProtoReflect().WhichOneof(s.op)
	if field == nil {
		return command{}, false
	}
	found, ok := s.byNum[field.Number()]
	return found, ok
}

// LevelOf returns the feature level that introduced a command, or 0 if it is unknown. A command
// that uses a field of a later level needs that level.
func (f *FSM) LevelOf(c *internalv1.Command) uint32 {
	found, _ := f.commands.of(c)
	return found.level
}
