package client

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRepeatable(t *testing.T) {
	for _, tt := range []struct {
		method string
		req    any
		want   bool
	}{
		{holdfastv1.MachineService_ListMachines_FullMethodName, &holdfastv1.ListMachinesRequest{}, true},
		{holdfastv1.ClusterService_GetClusterStatus_FullMethodName, &holdfastv1.GetClusterStatusRequest{}, true},
		{holdfastv1.RunService_StartRun_FullMethodName, &holdfastv1.StartRunRequest{}, false},
		{holdfastv1.RunService_StartRun_FullMethodName, &holdfastv1.StartRunRequest{RequestId: "r"}, true},
		{holdfastv1.RunService_CancelRun_FullMethodName, &holdfastv1.CancelRunRequest{}, true},
		{holdfastv1.MachineService_RegisterMachine_FullMethodName, &holdfastv1.RegisterMachineRequest{}, false},
		{holdfastv1.MachineService_RegisterMachine_FullMethodName, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m"}}, true},
		{holdfastv1.MachineService_UpdateMachine_FullMethodName, &holdfastv1.UpdateMachineRequest{}, true},
		{holdfastv1.MachineService_SetMachinePhase_FullMethodName, &holdfastv1.SetMachinePhaseRequest{}, true},
		{holdfastv1.MachineService_DeleteMachine_FullMethodName, &holdfastv1.DeleteMachineRequest{}, false},
		{holdfastv1.PlanService_CreatePlan_FullMethodName, &holdfastv1.CreatePlanRequest{}, true},
		{holdfastv1.PlanService_DeletePlan_FullMethodName, &holdfastv1.DeletePlanRequest{}, false},
		{holdfastv1.AccessService_WhoAmI_FullMethodName, &holdfastv1.WhoAmIRequest{}, true},
		{holdfastv1.AccessService_CreateToken_FullMethodName, &holdfastv1.CreateTokenRequest{}, false},
		{holdfastv1.AccessService_ListTokens_FullMethodName, &holdfastv1.ListTokensRequest{}, true},
		{holdfastv1.AccessService_RevokeToken_FullMethodName, &holdfastv1.RevokeTokenRequest{}, true},
		{holdfastv1.SecretService_PutSecret_FullMethodName, &holdfastv1.PutSecretRequest{}, true},
		{holdfastv1.SecretService_RotateSecrets_FullMethodName, &holdfastv1.RotateSecretsRequest{}, true},
		{holdfastv1.SecretService_DeleteSecret_FullMethodName, &holdfastv1.DeleteSecretRequest{}, false},
		{holdfastv1.SecretService_ListSecrets_FullMethodName, &holdfastv1.ListSecretsRequest{}, true},
		{holdfastv1.AuditService_ListAuditEvents_FullMethodName, &holdfastv1.ListAuditEventsRequest{}, true},
		{holdfastv1.AuditService_ExportAuditEvents_FullMethodName, &holdfastv1.ExportAuditEventsRequest{}, true},
		{holdfastv1.AgentService_CreateAgentMachine_FullMethodName, &holdfastv1.CreateAgentMachineRequest{MachineId: "m"}, false},
		{holdfastv1.AgentService_RegisterAgent_FullMethodName, &holdfastv1.RegisterAgentRequest{}, true},
		{holdfastv1.NodeService_CreateNode_FullMethodName, &holdfastv1.CreateNodeRequest{}, false},
		{holdfastv1.NodeService_UpdateNode_FullMethodName, &holdfastv1.UpdateNodeRequest{}, true},
		{holdfastv1.NodeService_TransitionNode_FullMethodName, &holdfastv1.TransitionNodeRequest{}, false},
		{holdfastv1.NodeService_ReportNode_FullMethodName, &holdfastv1.ReportNodeRequest{InstallationStatus: "started"}, true},
		{holdfastv1.NodeService_ReportNode_FullMethodName, &holdfastv1.ReportNodeRequest{InstallationStatus: "failed"}, false},
		{holdfastv1.PoolService_CreatePool_FullMethodName, &holdfastv1.CreatePoolRequest{}, true},
		{holdfastv1.PoolService_DeletePool_FullMethodName, &holdfastv1.DeletePoolRequest{}, false},
		{holdfastv1.PoolService_RegisterPool_FullMethodName, &holdfastv1.RegisterPoolRequest{}, true},
		{holdfastv1.PoolService_DeregisterPool_FullMethodName, &holdfastv1.DeregisterPoolRequest{}, true},
		{holdfastv1.PoolService_RegisterProvider_FullMethodName, &holdfastv1.RegisterProviderRequest{}, true},
		{holdfastv1.RegistryService_RegisterService_FullMethodName, &holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{}}, false},
		{holdfastv1.RegistryService_RegisterService_FullMethodName, &holdfastv1.RegisterServiceRequest{Target: &holdfastv1.ServiceTarget{Id: "x"}}, true},
		{holdfastv1.RegistryService_UpdateServiceState_FullMethodName, &holdfastv1.UpdateServiceStateRequest{State: &holdfastv1.ServiceState{}}, false},
		{holdfastv1.RegistryService_UpdateServiceState_FullMethodName, &holdfastv1.UpdateServiceStateRequest{State: &holdfastv1.ServiceState{Timestamp: timestamppb.Now()}}, true},
		{holdfastv1.RegistryService_DeregisterService_FullMethodName, &holdfastv1.DeregisterServiceRequest{}, true},
		{"/other.v1.Service/Get", struct{}{}, false},
	} {
		if got := repeatable(tt.method, tt.req); got != tt.want {
			t.Errorf("repeatable(%s, %v) = %v, want %v", tt.method, tt.req, got, tt.want)
		}
	}
}
