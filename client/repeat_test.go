package client

import (
	"testing"

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
		{holdfastv1.AuditService_ListAuditEvents_FullMethodName, &holdfastv1.ListAuditEventsRequest{}, true},
		{holdfastv1.AuditService_ExportAuditEvents_FullMethodName, &holdfastv1.ExportAuditEventsRequest{}, true},
		{"/other.v1.Service/Get", struct{}{}, false},
	} {
		if got := repeatable(tt.method, tt.req); got != tt.want {
			t.Errorf("repeatable(%s, %v) = %v, want %v", tt.method, tt.req, got, tt.want)
		}
	}
}
