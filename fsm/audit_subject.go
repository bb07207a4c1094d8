package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// subjectOf returns the subject of any command, and whether the command is listed here; a test
// fails for one that is not. A command without machines and pools (plans, tokens, secrets,
// services, the cluster) is refused to callers that are limited to pools.
func (t *tx) subjectOf(c *internalv1.Command) (about subject, known bool) {
	switch op := c.GetOp().(type) {
	case *internalv1.Command_RegisterMachine:
		in := op.RegisterMachine.GetMachine()
		return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
			if in.GetSpec() != nil {
				m.Spec = in.GetSpec()
			}
			if len(in.GetLabels()) > 0 {
				m.Labels = in.GetLabels() // they may contain the provider
			}
			return nil
		}), true
	case *internalv1.Command_UpdateMachine:
		in := op.UpdateMachine.GetMachine()
		return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
			return t.mergeMachine(m, in, op.UpdateMachine.GetPaths())
		}), true
	case *internalv1.Command_SetMachinePhase:
		return machineSubject(op.SetMachinePhase.GetMachineId()), true
	case *internalv1.Command_RetryBmc:
		return machineSubject(op.RetryBmc.GetMachineId()), true
	case *internalv1.Command_DeleteMachine:
		return machineSubject(op.DeleteMachine.GetMachineId()), true
	case *internalv1.Command_StartRun:
		return t.startSubject(op.StartRun), true
	case *internalv1.Command_CancelRun:
		return t.runSubject(op.CancelRun.GetRunId()), true

	case *internalv1.Command_CreatePlan:
		return named("plans", op.CreatePlan.GetPlan().GetPlanId()), true
	case *internalv1.Command_DeletePlan:
		return named("plans", op.DeletePlan.GetPlanId()), true
	case *internalv1.Command_PutImage:
		return named("images", op.PutImage.GetImage().GetName()), true
	case *internalv1.Command_DeleteImage:
		return named("images", op.DeleteImage.GetName()), true
	case *internalv1.Command_ReleasePlan:
		return named("plans", op.ReleasePlan.GetPlanId()), true

	case *internalv1.Command_CreateToken:
		return named("tokens", op.CreateToken.GetToken().GetToken().GetTokenId()), true
	case *internalv1.Command_RevokeToken:
		return named("tokens", op.RevokeToken.GetTokenId()), true
	case *internalv1.Command_PutSecret:
		return named("secrets", op.PutSecret.GetSecret().GetSecret().GetName()), true
	case *internalv1.Command_DeleteSecret:
		return named("secrets", op.DeleteSecret.GetName()), true
	case *internalv1.Command_ResealSecrets:
		return subject{resource: "secrets"}, true
	case *internalv1.Command_PutWebhook:
		return named("webhooks", op.PutWebhook.GetWebhook().GetName()), true
	case *internalv1.Command_DeleteWebhook:
		return named("webhooks", op.DeleteWebhook.GetName()), true
	case *internalv1.Command_RecordDenials:
		return subject{resource: "audit"}, true
	}
	return t.fleetSubject(c)
}

// fleetSubject returns the subjects of the commands of agents, nodes, pools, services and
// installers.
func (t *tx) fleetSubject(c *internalv1.Command) (about subject, known bool) {
	switch op := c.GetOp().(type) {
	case *internalv1.Command_CreateAgentMachine:
		return t.newMachine(op.CreateAgentMachine.GetMachineId(), op.CreateAgentMachine.GetPool()), true
	case *internalv1.Command_RegisterAgent:
		in := op.RegisterAgent.GetAgent()
		if _, ok := t.poolOpen(in.GetPoolName()); !ok { // the command has the right error
			return machineSubject(in.GetMachineId()), true
		}
		return t.newMachine(in.GetMachineId(), in.GetPoolName()), true

	case *internalv1.Command_CreateNode:
		return t.newMachine(op.CreateNode.GetMachineId(), ""), true
	case *internalv1.Command_UpdateNode:
		return machineSubject(t.nodeID(op.UpdateNode.GetId())), true
	case *internalv1.Command_TransitionNode:
		return machineSubject(t.nodeID(op.TransitionNode.GetId())), true
	case *internalv1.Command_ReportNode:
		if id := t.nodeID(op.ReportNode.GetReport().GetMacAddress()); t.machines.has(id) {
			return machineSubject(id), true
		}
		return t.newMachine(op.ReportNode.GetMachineId(), ""), true // the machine is discovered

	case *internalv1.Command_BootInstall:
		return machineSubject(op.BootInstall.GetMachineId()), true
	case *internalv1.Command_ReportInstall:
		return t.installSubject(op.ReportInstall.GetSha256()), true
	case *internalv1.Command_AppendInstallLog:
		return t.installSubject(op.AppendInstallLog.GetSha256()), true

	case *internalv1.Command_CreatePool:
		return poolSubject(op.CreatePool.GetPool().GetPoolId()), true
	case *internalv1.Command_DeletePool:
		return poolSubject(op.DeletePool.GetPoolId()), true
	case *internalv1.Command_RegisterPool:
		return poolSubject(op.RegisterPool.GetPool().GetPoolId()), true
	case *internalv1.Command_DeregisterPool:
		return poolSubject(op.DeregisterPool.GetPoolId()), true
	case *internalv1.Command_DeleteProvider:
		return t.providerSubject(&holdfastv1.PlatformProvider{ProviderId: op.DeleteProvider.GetProviderId()}), true
	case *internalv1.Command_RegisterProvider:
		return t.providerSubject(op.RegisterProvider.GetProvider()), true

	case *internalv1.Command_RegisterService:
		id := op.RegisterService.GetTarget().GetId()
		if id == "" {
			id = op.RegisterService.GetNewId()
		}
		return named("services", id), true
	case *internalv1.Command_UpdateServiceState:
		return named("services", op.UpdateServiceState.GetId()), true
	case *internalv1.Command_DeregisterService:
		id := op.DeregisterService.GetId()
		if id == "" {
			id = op.DeregisterService.GetTarget().GetId()
		}
		return named("services", id), true
	}
	return t.clusterSubject(c)
}

// installSubject returns the machine of the installer's token as the subject.
func (t *tx) installSubject(sum []byte) subject {
	if s, _, ok := t.installByToken(sum); ok {
		return machineSubject(s.GetInstall().GetMachineId())
	}
	return named("installs", "?")
}

// clusterSubject returns the subjects of commands of the cluster itself. They name no machine
// or pool, so callers limited to pools may not give them.
func (t *tx) clusterSubject(c *internalv1.Command) (about subject, known bool) {
	switch op := c.GetOp().(type) {
	case *internalv1.Command_PutPeer:
		return named("peers", op.PutPeer.GetPeer().GetId()), true
	case *internalv1.Command_RemovePeer:
		return named("peers", op.RemovePeer.GetId()), true
	case *internalv1.Command_StageBackup:
		return named("snapshots", op.StageBackup.GetRestoreId()), true
	case *internalv1.Command_RestoreBackup:
		return named("snapshots", op.RestoreBackup.GetRestoreId()), true
	case *internalv1.Command_NoteBackup:
		if member := op.NoteBackup.GetMember(); member != "" {
			return named("peers", member), true
		}
		if op.NoteBackup.GetMembers() {
			return subject{resource: "peers"}, true
		}
		return subject{resource: "snapshots"}, true
	case *internalv1.Command_SetAutopilot:
		return subject{resource: "autopilot"}, true
	case *internalv1.Command_ResetClock:
		return subject{resource: "clock"}, true
	case *internalv1.Command_BeginAttempt:
		return named("runs", op.BeginAttempt.GetRunId()), true
	case *internalv1.Command_NoteProgress:
		return named("runs", op.NoteProgress.GetRunId()), true
	case *internalv1.Command_EndAttempt:
		return named("runs", op.EndAttempt.GetRunId()), true
	case *internalv1.Command_AbortRun:
		return named("runs", op.AbortRun.GetRunId()), true
	case *internalv1.Command_OpenInstall:
		return named("runs", op.OpenInstall.GetRunId()), true
	case *internalv1.Command_NoteInstall:
		return named("runs", op.NoteInstall.GetRunId()), true
	case *internalv1.Command_CompactRunLog:
		return named("runs", op.CompactRunLog.GetRunId()), true
	case *internalv1.Command_ArchiveRun:
		return named("runs", op.ArchiveRun.GetRunId()), true
	case *internalv1.Command_DropArchivedRun:
		return named("runs", op.DropArchivedRun.GetRunId()), true
	case *internalv1.Command_NoteDelivery:
		return named("webhooks", op.NoteDelivery.GetName()), true
	case *internalv1.Command_LeaderEstablished, *internalv1.Command_InitCluster,
		*internalv1.Command_RaiseFeatureLevel, *internalv1.Command_Beat,
		*internalv1.Command_ObserveConditions, *internalv1.Command_AppendRunLogs,
		*internalv1.Command_DropTokens, *internalv1.Command_PutSigningKeys,
		*internalv1.Command_NoteDevice, *internalv1.Command_CheckpointLeases,
		*internalv1.Command_ExpireLeases, *internalv1.Command_SweepPools:
		return subject{resource: "cluster"}, true
	}
	return subject{}, false
}

// nodeID returns the machine that a node's id refers to, which may be a machine id or a MAC
// address.
func (t *tx) nodeID(id string) string {
	if mac, ok := normalizeMAC(id); ok && !t.machines.has(id) {
		if m, ok := t.machines.lookup(machinesByOwned, "MAC address "+mac); ok {
			return m.GetMachineId()
		}
	}
	return id
}
