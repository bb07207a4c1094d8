package auth

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// policy returns the access rules of all methods (shown in docs/security.md). A method
// without a rule is refused, and a test fails for it. Whether a resource is in the
// caller's pools is checked elsewhere: by the FSM for changes, by the handlers for reads.
func policy() map[string]Rule {
	var (
		viewer   = Rule{Least: holdfastv1.Role_VIEWER}
		operator = Rule{Least: holdfastv1.Role_OPERATOR}
		overall  = Rule{Least: holdfastv1.Role_OPERATOR, Unscoped: true}
		admin    = Rule{Least: holdfastv1.Role_ADMIN}
		agents   = []holdfastv1.Role_Value{holdfastv1.Role_AGENT, holdfastv1.Role_POOL_AGENT}
		pools    = []holdfastv1.Role_Value{holdfastv1.Role_POOL_AGENT}
		services = []holdfastv1.Role_Value{holdfastv1.Role_SERVICE}
		backups  = []holdfastv1.Role_Value{holdfastv1.Role_BACKUP}
	)
	p := map[string]Rule{}
	add := func(service string, r Rule, methods ...string) {
		for _, m := range methods {
			p[service+"/"+m] = r
		}
	}
	also := func(r Rule, roles []holdfastv1.Role_Value) Rule {
		r.Also = roles
		return r
	}

	add("holdfast.v1.MachineService", viewer, "GetMachine", "ListMachines", "ListMachineHistory", "ExplainMachine")
	add("holdfast.v1.MachineService", operator,
		"RegisterMachine", "UpdateMachine", "SetMachinePhase", "RetryBmc", "DeleteMachine")
	add("holdfast.v1.PlanService", viewer, "GetPlan", "ListPlans")
	add("holdfast.v1.PlanService", operator, "ProbePlan")
	add("holdfast.v1.PlanService", overall, "CreatePlan", "DeletePlan", "ReleasePlan")
	add("holdfast.v1.ImageService", viewer, "GetImage", "ListImages")
	add("holdfast.v1.ImageService", overall, "AddImage", "DeleteImage", "UploadFile")
	add("holdfast.v1.RunService", viewer, "GetRun", "ListRuns", "WatchRuns", "StreamRunLogs")
	add("holdfast.v1.RunService", operator, "StartRun", "CancelRun")
	add("holdfast.v1.ConsoleService", operator, "Attach")
	add("holdfast.v1.ClusterService", viewer, "GetClusterStatus")
	add("holdfast.v1.ClusterService", admin, "CollectDebug")
	add("holdfast.v1.OperatorService", also(admin, backups), "SaveSnapshot", "NoteSnapshot")
	add("holdfast.v1.OperatorService", admin, "StageSnapshot", "RestoreSnapshot",
		"TransferLeadership", "RemovePeer", "Probe", "GetAutopilot", "SetAutopilot", "ResetClock")

	add("holdfast.v1.AccessService", Rule{Anyone: true}, "WhoAmI")
	add("holdfast.v1.AccessService", admin, "CreateToken", "ListTokens", "RevokeToken")
	add("holdfast.v1.SecretService", admin, "PutSecret", "GetSecret", "ListSecrets", "DeleteSecret", "RotateSecrets")
	add("holdfast.v1.EventService", viewer, "WatchEvents")
	add("holdfast.v1.WebhookService", admin, "PutWebhook", "GetWebhook", "ListWebhooks", "DeleteWebhook")
	add("holdfast.v1.AuditService", admin, "ListAuditEvents", "ExportAuditEvents")

	add("holdfast.v1.NodeService", viewer, "GetNode", "ListStalledNodes")
	add("holdfast.v1.NodeService", operator, "CreateNode", "UpdateNode", "TransitionNode")
	add("holdfast.v1.NodeService", also(operator, agents), "ReportNode")
	add("holdfast.v1.InstallService", viewer, "GetInstall", "ListInstalls")
	// Machines that boot from the network have no credentials. The installer's token is
	// in the request, and the FSM compares it with that of the session.
	add("holdfast.v1.InstallService", Rule{Public: true, OverHTTP: true},
		"LookUpBoot", "BootMachine", "GetWorkOrder", "ReportInstall", "AppendInstallLog")
	add("holdfast.v1.AgentService", operator, "CreateAgentMachine")
	add("holdfast.v1.AgentService", also(viewer, agents), "ListAgentMachines")
	enrollers := append([]holdfastv1.Role_Value{holdfastv1.Role_ENROLLER}, agents...)
	add("holdfast.v1.AgentService", Rule{Also: enrollers, Own: ownMachine}, "RegisterAgent")
	add("holdfast.v1.HeartbeatService", Rule{Also: agents, Own: ownMachine}, "KeepMachineAlive")
	add("holdfast.v1.HeartbeatService", Rule{Also: pools, Own: ownPool}, "HeartbeatPool")
	add("holdfast.v1.HeartbeatService", Rule{Also: services}, "PingService")

	add("holdfast.v1.PoolService", viewer, "GetPool", "ListPools", "ListProviders")
	add("holdfast.v1.PoolService", overall, "CreatePool", "DeletePool", "DeleteProvider")
	add("holdfast.v1.PoolService", also(overall, pools), "RegisterProvider")
	add("holdfast.v1.PoolService", Rule{Also: pools, Own: ownPool}, "RegisterPool")
	add("holdfast.v1.PoolService", Rule{Least: holdfastv1.Role_OPERATOR, Also: pools, Own: ownPool}, "DeregisterPool")

	add("holdfast.v1.RegistryService", also(viewer, services), "GetService", "ListServices", "WatchServices")
	add("holdfast.v1.RegistryService", Rule{Also: services},
		"RegisterService", "UpdateServiceState", "DeregisterService")

	add("grpc.health.v1.Health", Health(), "Check", "List", "Watch")
	add("grpc.reflection.v1.ServerReflection", Rule{Anyone: true}, "ServerReflectionInfo")
	add("grpc.reflection.v1alpha.ServerReflection", Rule{Anyone: true}, "ServerReflectionInfo")

	peers := Rule{Peers: true}
	add("holdfast.internal.v1.PeerService", peers,
		"Confirm", "ReadIndex", "StandDown", "Admit", "Stats", "StateSum", "Leave")
	add("holdfast.internal.v1.BlobService", peers, "StatBlob", "PullBlob", "ReadBlob")
	add("holdfast.internal.v1.LeaseService", peers, "Renew")
	add("holdfast.internal.v1.StageService", peers, "ReadStage")
	add("holdfast.internal.v1.AuditRelay", peers, "RecordDenials")
	return p
}

// ownMachine reports whether a request names the machine of its agent. For the agents of
// a pool, the handlers check that the machine is in the pool.
func ownMachine(id *holdfastv1.Identity, req proto.Message) bool {
	r, ok := req.(interface{ GetMachineId() string })
	return ok && (id.GetRole() != holdfastv1.Role_AGENT || r.GetMachineId() == id.GetMachineId())
}

// ownPool reports whether a request names the pool of its agent.
func ownPool(id *holdfastv1.Identity, req proto.Message) bool {
	var pool string
	switch r := req.(type) {
	case interface{ GetPoolId() string }:
		pool = r.GetPoolId()
	case *holdfastv1.RegisterPoolRequest:
		pool = r.GetPool().GetPoolId()
	default:
		return false
	}
	return pool != "" && InScope(id, pool)
}
