package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/consoles"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/installs"
	"github.com/holdfast-metal/holdfast/fsm/internal/leases"
	"github.com/holdfast-metal/holdfast/fsm/internal/registry"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// commandList declares every command of the Raft log, in the order of command.proto: its message,
// the rule that applies it, and its subject. A fenced command is refused unless it carries the
// epoch of the present leader (docs/reliability.md).
func commandList(stage *backup.Cache) []command {
	return []command{
		changes((*internalv1.Command).GetLeaderEstablished, leaderEstablished, ofCluster),
		changes((*internalv1.Command).GetInitCluster, initCluster, ofCluster),
		changes((*internalv1.Command).GetRaiseFeatureLevel, raiseFeatureLevel, ofCluster),
		changes((*internalv1.Command).GetPutPeer, putPeer,
			byName("peers", func(c *internalv1.PutPeer) string { return c.GetPeer().GetId() })),
		changes((*internalv1.Command).GetRemovePeer, removePeer, byName("peers", (*internalv1.RemovePeer).GetId)),
		changes((*internalv1.Command).GetAdmitPeer, admitPeer, byName("peers", (*internalv1.AdmitPeer).GetId)),
		changes((*internalv1.Command).GetNoOp, func(*core.Tx, *internalv1.NoOp) *Error { return nil }, ofCluster),
		changes((*internalv1.Command).GetCompareClocks, compareClocks, ofCluster).fenced(),
		changes((*internalv1.Command).GetResetClock, resetClock,
			everything[*internalv1.ResetClock]("clock")),

		answers((*internalv1.Command).GetRegisterMachine, fleet.RegisterMachine, ofRegistration),
		answers((*internalv1.Command).GetUpdateMachine, fleet.UpdateMachine, ofUpdate),
		answers((*internalv1.Command).GetSetMachinePhase, fleet.SetMachinePhase, ofMachine),
		changes((*internalv1.Command).GetDeleteMachine, fleet.DeleteMachine, ofMachine),
		changes((*internalv1.Command).GetObserveConditions, fleet.ObserveConditions, ofCluster).fenced(),
		changes((*internalv1.Command).GetNoteDevice, fleet.NoteDevice, ofCluster).fenced(),
		answers((*internalv1.Command).GetRetryBmc, fleet.RetryBMC, ofMachine),

		answers((*internalv1.Command).GetCreatePlan, runs.CreatePlan,
			byName("plans", func(c *internalv1.CreatePlan) string { return c.GetPlan().GetPlanId() })),
		changes((*internalv1.Command).GetDeletePlan, runs.DeletePlan, ofPlan),
		answers((*internalv1.Command).GetReleasePlan, runs.ReleasePlan, ofRelease),

		answers((*internalv1.Command).GetStartRun, runs.StartRun, startSubject),
		answers((*internalv1.Command).GetCancelRun, runs.CancelRun, ofRunsMachine),
		answers((*internalv1.Command).GetBeginAttempt, runs.BeginAttempt, ofRun).fenced(),
		answers((*internalv1.Command).GetNoteProgress, runs.NoteProgress, ofRun).fenced(),
		answers((*internalv1.Command).GetEndAttempt, runs.EndAttempt, ofRun).fenced(),
		answers((*internalv1.Command).GetAbortRun, runs.AbortRun, ofRun).fenced(),
		changes((*internalv1.Command).GetAppendRunLogs, runs.AppendRunLogs, ofCluster).fenced(),
		changes((*internalv1.Command).GetCompactRunLog, runs.CompactRunLog, ofRun).fenced(),
		changes((*internalv1.Command).GetArchiveRun, runs.ArchiveRun, ofRun).fenced(),
		changes((*internalv1.Command).GetDropArchivedRun, runs.DropArchivedRun, ofRun).fenced(),
		answers((*internalv1.Command).GetNoteReading, runs.NoteReading, ofRun).fenced(),
		answers((*internalv1.Command).GetStartWave, runs.StartWave, waveSubject),
		answers((*internalv1.Command).GetAdvanceWave, runs.AdvanceWave,
			byName("waves", (*internalv1.AdvanceWave).GetWaveId)).fenced(),
		answers((*internalv1.Command).GetCancelWave, runs.CancelWave, ofWave),

		answers((*internalv1.Command).GetCreateToken, access.CreateToken,
			byName("tokens", func(c *internalv1.CreateToken) string { return c.GetToken().GetToken().GetTokenId() })),
		answers((*internalv1.Command).GetRevokeToken, access.RevokeToken,
			byName("tokens", (*internalv1.RevokeToken).GetTokenId)),
		changes((*internalv1.Command).GetDropTokens, access.DropTokens, ofCluster).fenced(),
		answers((*internalv1.Command).GetPutSecret, access.PutSecret,
			byName("secrets", func(c *internalv1.PutSecret) string { return c.GetSecret().GetSecret().GetName() })),
		changes((*internalv1.Command).GetDeleteSecret, access.DeleteSecret,
			byName("secrets", (*internalv1.DeleteSecret).GetName)),
		changes((*internalv1.Command).GetResealSecrets, access.ResealSecrets,
			everything[*internalv1.ResealSecrets]("secrets")),
		changes((*internalv1.Command).GetPutSigningKeys, access.PutSigningKeys, ofCluster).fenced(),
		changes((*internalv1.Command).GetRecordDenials, trail.RecordDenials,
			everything[*internalv1.RecordDenials]("audit")),

		changes((*internalv1.Command).GetNoteSessions, access.NoteSessions,
			everything[*internalv1.NoteSessions]("sessions")),
		answers((*internalv1.Command).GetEndSession, access.EndSession, ofSession),
		changes((*internalv1.Command).GetDropSessions, access.DropSessions, ofCluster).fenced(),

		changes((*internalv1.Command).GetCheckpointLeases, leases.CheckpointLeases, ofCluster).fenced(),
		changes((*internalv1.Command).GetExpireLeases, leases.ExpireLeases, ofCluster).fenced(),

		answers((*internalv1.Command).GetCreateAgentMachine, fleet.CreateAgentMachine, ofAgentMachine),
		answers((*internalv1.Command).GetRegisterAgent, fleet.RegisterAgent, ofAgent),

		answers((*internalv1.Command).GetCreateNode, fleet.CreateNode, ofNewNode),
		answers((*internalv1.Command).GetUpdateNode, fleet.UpdateNode, ofNodeUpdate),
		answers((*internalv1.Command).GetTransitionNode, installs.TransitionNode, ofTransition),
		answers((*internalv1.Command).GetReportNode, installs.ReportNode, ofReport),

		answers((*internalv1.Command).GetCreatePool, registry.CreatePool, ofNewPool),
		changes((*internalv1.Command).GetDeletePool, registry.DeletePool, ofPool),
		answers((*internalv1.Command).GetRegisterPool, registry.RegisterPool, ofNewPool),
		changes((*internalv1.Command).GetDeregisterPool, registry.DeregisterPool, ofPool),
		answers((*internalv1.Command).GetRegisterProvider, registry.RegisterProvider, ofProvider),
		changes((*internalv1.Command).GetSweepPools, registry.SweepPools, ofCluster).fenced(),
		changes((*internalv1.Command).GetDeleteProvider, registry.DeleteProvider, ofDeletedProvider),

		answers((*internalv1.Command).GetRegisterService, registry.RegisterService, ofService),
		answers((*internalv1.Command).GetUpdateServiceState, registry.UpdateServiceState,
			byName("services", (*internalv1.UpdateServiceState).GetId)),
		answers((*internalv1.Command).GetDeregisterService, registry.DeregisterService, ofDeregistered),

		answers((*internalv1.Command).GetOpenInstall, installs.OpenInstall, ofRun).fenced(),
		answers((*internalv1.Command).GetBootInstall, installs.BootInstall, ofMachine),
		answers((*internalv1.Command).GetReportInstall, installs.ReportInstall, ofInstaller),
		answers((*internalv1.Command).GetAppendInstallLog, installs.AppendInstallLog, ofInstaller),
		answers((*internalv1.Command).GetNoteInstall, installs.NoteInstallSession, ofRun).fenced(),

		answers((*internalv1.Command).GetPutImage, runs.PutImage,
			byName("images", func(c *internalv1.PutImage) string { return c.GetImage().GetName() })),
		changes((*internalv1.Command).GetDeleteImage, runs.DeleteImage,
			byName("images", (*internalv1.DeleteImage).GetName)),

		changes((*internalv1.Command).GetStageBackup, backup.Stage, ofRestore),
		answers((*internalv1.Command).GetRestoreBackup,
			func(t *core.Tx, c *internalv1.RestoreBackup) (*holdfastv1.RestoreSnapshotResponse, *Error) {
				return backup.Restore(t, stage, c)
			}, ofRestore),
		changes((*internalv1.Command).GetNoteBackup, backup.Note, ofBackup),
		changes((*internalv1.Command).GetSetAutopilot, setAutopilot, everything[*internalv1.SetAutopilot]("autopilot")),

		answers((*internalv1.Command).GetOpenConsole, consoles.Open, ofRunsMachine),
		changes((*internalv1.Command).GetRecordConsole, consoles.Record,
			byName("consoles", (*internalv1.RecordConsole).GetSessionId)),
		changes((*internalv1.Command).GetCloseConsole, consoles.Close,
			byName("consoles", (*internalv1.CloseConsole).GetSessionId)),
		changes((*internalv1.Command).GetDropConsoles, consoles.Drop, ofCluster).fenced(),

		answers((*internalv1.Command).GetPutWebhook, access.PutWebhook,
			byName("webhooks", func(c *internalv1.PutWebhook) string { return c.GetWebhook().GetName() })),
		changes((*internalv1.Command).GetDeleteWebhook, access.DeleteWebhook,
			byName("webhooks", (*internalv1.DeleteWebhook).GetName)),
		changes((*internalv1.Command).GetNoteDelivery, access.NoteDelivery,
			byName("webhooks", (*internalv1.NoteDelivery).GetName)).fenced(),
	}
}
