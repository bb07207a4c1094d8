package client

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		method string
		req    any
		want   rule
	}{
		{holdfastv1.MachineService_ListMachines_FullMethodName, &holdfastv1.ListMachinesRequest{}, hedged},
		{holdfastv1.ClusterService_GetClusterStatus_FullMethodName, &holdfastv1.GetClusterStatusRequest{}, hedged},
		{holdfastv1.ClusterService_GetIssuers_FullMethodName, &holdfastv1.GetIssuersRequest{}, hedged},
		{holdfastv1.RunService_StartRun_FullMethodName, &holdfastv1.StartRunRequest{}, once},
		{holdfastv1.RunService_StartRun_FullMethodName, &holdfastv1.StartRunRequest{RequestId: "r"}, hedged},
		{holdfastv1.RunService_CancelRun_FullMethodName, &holdfastv1.CancelRunRequest{}, hedged},
		{holdfastv1.WaveService_StartWave_FullMethodName, &holdfastv1.StartWaveRequest{}, once},
		{holdfastv1.WaveService_StartWave_FullMethodName, &holdfastv1.StartWaveRequest{RequestId: "w"}, hedged},
		{holdfastv1.WaveService_RetryWave_FullMethodName, &holdfastv1.RetryWaveRequest{WaveId: "w"}, once},
		{holdfastv1.WaveService_CancelWave_FullMethodName, &holdfastv1.CancelWaveRequest{}, hedged},
		{holdfastv1.MachineService_RegisterMachine_FullMethodName, &holdfastv1.RegisterMachineRequest{}, once},
		{holdfastv1.MachineService_RegisterMachine_FullMethodName,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m"}}, again},
		{holdfastv1.MachineService_UpdateMachine_FullMethodName, &holdfastv1.UpdateMachineRequest{}, again},
		{holdfastv1.MachineService_RetryBmc_FullMethodName, &holdfastv1.RetryBmcRequest{}, again},
		{holdfastv1.OperatorService_AdmitPeer_FullMethodName, &holdfastv1.AdmitPeerRequest{}, again},
		{holdfastv1.OperatorService_ResetClock_FullMethodName, &holdfastv1.ResetClockRequest{}, again},
		{holdfastv1.MachineService_SetMachinePhase_FullMethodName, &holdfastv1.SetMachinePhaseRequest{}, again},
		{holdfastv1.MachineService_DeleteMachine_FullMethodName, &holdfastv1.DeleteMachineRequest{}, once},
		{holdfastv1.PlanService_CreatePlan_FullMethodName, &holdfastv1.CreatePlanRequest{}, again},
		{holdfastv1.PlanService_DeletePlan_FullMethodName, &holdfastv1.DeletePlanRequest{}, once},
		{holdfastv1.AccessService_WhoAmI_FullMethodName, &holdfastv1.WhoAmIRequest{}, hedged},
		{holdfastv1.AccessService_CreateToken_FullMethodName, &holdfastv1.CreateTokenRequest{}, once},
		{holdfastv1.AccessService_ListTokens_FullMethodName, &holdfastv1.ListTokensRequest{}, hedged},
		{holdfastv1.AccessService_RevokeToken_FullMethodName, &holdfastv1.RevokeTokenRequest{}, hedged},
		{holdfastv1.SessionService_ListSessions_FullMethodName, &holdfastv1.ListSessionsRequest{}, hedged},
		{holdfastv1.SessionService_EndSession_FullMethodName, &holdfastv1.EndSessionRequest{}, hedged},
		{holdfastv1.ConsoleService_ListConsoleSessions_FullMethodName, &holdfastv1.ListConsoleSessionsRequest{}, hedged},
		{holdfastv1.ConsoleService_ReplayConsole_FullMethodName, &holdfastv1.ReplayConsoleRequest{}, hedged},
		{holdfastv1.ImageService_AddImage_FullMethodName, &holdfastv1.AddImageRequest{}, again},
		{holdfastv1.ImageService_DeleteImage_FullMethodName, &holdfastv1.DeleteImageRequest{}, once},
		{holdfastv1.SecretService_PutSecret_FullMethodName, &holdfastv1.PutSecretRequest{}, again},
		{holdfastv1.SecretService_RotateSecrets_FullMethodName, &holdfastv1.RotateSecretsRequest{}, again},
		{holdfastv1.SecretService_DeleteSecret_FullMethodName, &holdfastv1.DeleteSecretRequest{}, once},
		{holdfastv1.SecretService_ListSecrets_FullMethodName, &holdfastv1.ListSecretsRequest{}, hedged},
		{holdfastv1.AuditService_ListAuditEvents_FullMethodName, &holdfastv1.ListAuditEventsRequest{}, hedged},
		{holdfastv1.AuditService_ExportAuditEvents_FullMethodName, &holdfastv1.ExportAuditEventsRequest{}, hedged},
		{holdfastv1.AgentService_CreateAgentMachine_FullMethodName, &holdfastv1.CreateAgentMachineRequest{MachineId: "m"},
			once},
		{holdfastv1.AgentService_RegisterAgent_FullMethodName, &holdfastv1.RegisterAgentRequest{}, again},
		{holdfastv1.NodeService_CreateNode_FullMethodName, &holdfastv1.CreateNodeRequest{}, once},
		{holdfastv1.NodeService_UpdateNode_FullMethodName, &holdfastv1.UpdateNodeRequest{}, again},
		{holdfastv1.NodeService_TransitionNode_FullMethodName, &holdfastv1.TransitionNodeRequest{}, once},
		{holdfastv1.NodeService_ReportNode_FullMethodName, &holdfastv1.ReportNodeRequest{RequestId: "r"}, again},
		{holdfastv1.NodeService_ReportNode_FullMethodName, &holdfastv1.ReportNodeRequest{InstallationStatus: "failed"}, once},
		{holdfastv1.PoolService_CreatePool_FullMethodName, &holdfastv1.CreatePoolRequest{}, again},
		{holdfastv1.PoolService_DeletePool_FullMethodName, &holdfastv1.DeletePoolRequest{}, once},
		{holdfastv1.PoolService_DeleteProvider_FullMethodName, &holdfastv1.DeleteProviderRequest{}, once},
		{holdfastv1.PoolService_RegisterPool_FullMethodName, &holdfastv1.RegisterPoolRequest{}, again},
		{holdfastv1.PoolService_DeregisterPool_FullMethodName, &holdfastv1.DeregisterPoolRequest{}, again},
		{holdfastv1.PoolService_RegisterProvider_FullMethodName, &holdfastv1.RegisterProviderRequest{}, again},
		{holdfastv1.RegistryService_RegisterService_FullMethodName,
			&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{}}, once},
		{holdfastv1.RegistryService_RegisterService_FullMethodName,
			&holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{Id: "x"}}, again},
		{holdfastv1.RegistryService_UpdateServiceState_FullMethodName,
			&holdfastv1.UpdateServiceStateRequest{State: &holdfastv1.ServiceState{}}, once},
		{holdfastv1.RegistryService_UpdateServiceState_FullMethodName,
			&holdfastv1.UpdateServiceStateRequest{State: &holdfastv1.ServiceState{Timestamp: timestamppb.Now()}}, again},
		{holdfastv1.RegistryService_DeregisterService_FullMethodName, &holdfastv1.DeregisterServiceRequest{}, again},
		{holdfastv1.EventService_WatchEvents_FullMethodName, &holdfastv1.WatchEventsRequest{}, hedged},
		{holdfastv1.WebhookService_PutWebhook_FullMethodName, &holdfastv1.PutWebhookRequest{}, again},
		{holdfastv1.WebhookService_DeleteWebhook_FullMethodName, &holdfastv1.DeleteWebhookRequest{}, once},
		{"/other.v1.Service/Get", struct{}{}, once},
	} {
		if got := ruleOf(tt.method, tt.req); got != tt.want {
			t.Errorf("ruleOf(%s, %v): got %v, want %v", tt.method, tt.req, got, tt.want)
		}
	}
}

// A path to a missing field would silently make the rule ONCE.
func TestNeeds(t *testing.T) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				r := retryOf("/" + string(m.Parent().FullName()) + "/" + string(m.Name()))
				fields := m.Input().Fields()
				for _, name := range strings.FieldsFunc(r.GetNeeds(), func(r rune) bool { return r == '.' }) {
					field := fields.ByName(protoreflect.Name(name))
					if field == nil {
						t.Errorf("%s needs %q: the request has no field %s", m.FullName(), r.GetNeeds(), name)
						break
					}
					if field.Message() != nil {
						fields = field.Message().Fields()
					}
				}
				if isRead("/"+string(m.Parent().FullName())+"/"+string(m.Name())) && r != nil {
					t.Errorf("%s is NO_SIDE_EFFECTS, so its option retry has no effect", m.FullName())
				}
			}
		}
		return true
	})
}
