package crash

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// step makes a step of a plan. No retry is allowed, so that a run only succeeds if nothing that
// happens to leaders makes an attempt fail.
func step(name string, kind any) *holdfastv1.Step {
	none := int32(0)
	s := &holdfastv1.Step{Name: name, TimeoutSeconds: 50, MaxRetries: &none}
	switch k := kind.(type) {
	case *holdfastv1.SshCommand:
		s.Kind = &holdfastv1.Step_Ssh{Ssh: k}
	case *holdfastv1.Reboot:
		s.Kind = &holdfastv1.Step_Reboot{Reboot: k}
	case *holdfastv1.SetNetboot:
		s.Kind = &holdfastv1.Step_Netboot{Netboot: k}
	case *holdfastv1.RepaveImage:
		s.Kind = &holdfastv1.Step_Repave{Repave: k}
	case *holdfastv1.KubeadmJoin:
		s.Kind = &holdfastv1.Step_Join{Join: k}
	case *holdfastv1.VerifyInCluster:
		s.Kind = &holdfastv1.Step_Verify{Verify: k}
	case *holdfastv1.NetReconfig:
		s.Kind = &holdfastv1.Step_Net{Net: k}
	case *holdfastv1.RmaAction:
		s.Kind = &holdfastv1.Step_Rma{Rma: k}
	case *holdfastv1.Power:
		s.Kind = &holdfastv1.Step_Power{Power: k}
	case *holdfastv1.Inspect:
		s.Kind = &holdfastv1.Step_Inspect{Inspect: k}
	case *holdfastv1.Identify:
		s.Kind = &holdfastv1.Step_Identify{Identify: k}
	case *holdfastv1.ReadEventLog:
		s.Kind = &holdfastv1.Step_EventLog{EventLog: k}
	case *holdfastv1.ClearEventLog:
		s.Kind = &holdfastv1.Step_ClearEventLog{ClearEventLog: k}
	case *holdfastv1.ResetBmc:
		s.Kind = &holdfastv1.Step_ResetBmc{ResetBmc: k}
	case *holdfastv1.Media:
		s.Kind = &holdfastv1.Step_Media{Media: k}
	case *holdfastv1.ReadInventory:
		s.Kind = &holdfastv1.Step_Inventory{Inventory: k}
	case *holdfastv1.SerialConsole:
		s.Kind = &holdfastv1.Step_Console{Console: k}
	}
	return s
}
