package fsmtest

import (
	"fmt"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Kinds returns the kinds of steps.
func Kinds() []string {
	return []string{"ssh", "reboot", "netboot", "repave", "join", "verify", "net", "rma", "power", "inspect",
		"identify", "event_log", "clear_event_log", "reset_bmc", "media", "inventory", "console"}
}

// Step returns a valid step of a kind, named after it.
func Step(kind string) *holdfastv1.Step {
	s := &holdfastv1.Step{Name: kind}
	switch kind {
	case "ssh":
		s.Kind = &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}
	case "reboot":
		s.Kind = &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}
	case "netboot":
		s.Kind = &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{}}
	case "repave":
		s.Kind = &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}
	case "join":
		s.Kind = &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{}}
	case "verify":
		s.Kind = &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{}}
	case "net":
		s.Kind = &holdfastv1.Step_Net{Net: &holdfastv1.NetReconfig{}}
	case "rma":
		s.Kind = &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{}}
	case "power":
		s.Kind = &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: "off"}}
	case "inspect":
		s.Kind = &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}
	case "identify":
		s.Kind = &holdfastv1.Step_Identify{Identify: &holdfastv1.Identify{}}
	case "event_log":
		s.Kind = &holdfastv1.Step_EventLog{EventLog: &holdfastv1.ReadEventLog{}}
	case "clear_event_log":
		s.Kind = &holdfastv1.Step_ClearEventLog{ClearEventLog: &holdfastv1.ClearEventLog{}}
	case "reset_bmc":
		s.Kind = &holdfastv1.Step_ResetBmc{ResetBmc: &holdfastv1.ResetBmc{}}
	case "media":
		s.Kind = &holdfastv1.Step_Media{Media: &holdfastv1.Media{}}
	case "inventory":
		s.Kind = &holdfastv1.Step_Inventory{Inventory: &holdfastv1.ReadInventory{}}
	case "console":
		s.Kind = &holdfastv1.Step_Console{Console: &holdfastv1.SerialConsole{}}
	default:
		panic(fmt.Sprintf("step kind %q is not known", kind))
	}
	return s
}
