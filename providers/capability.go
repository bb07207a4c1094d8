package providers

import (
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Capability is the name of a capability interface, as errors and documentation show it.
type Capability string

// The capabilities.
const (
	CanInspect Capability = "Inspector"
	CanPower   Capability = "PowerController"
	CanBoot    Capability = "BootController"
	CanMedia   Capability = "MediaController"
	CanImage   Capability = "Imager"
	CanExec    Capability = "RemoteExecutor"
	CanJoin    Capability = "ClusterJoiner"
	CanNet     Capability = "NetConfigurator"
	CanConsole Capability = "Console"
	CanHealth  Capability = "HealthReader"

	CanIdentify  Capability = "Identifier"
	CanEvents    Capability = "EventLog"
	CanReset     Capability = "BMCResetter"
	CanInventory Capability = "InventoryReader"
)

// Capabilities returns the capabilities that p implements.
func Capabilities(p Provider) []Capability {
	var cs []Capability
	add := func(c Capability, ok bool) {
		if ok {
			cs = append(cs, c)
		}
	}
	_, ok := p.(Inspector)
	add(CanInspect, ok)
	_, ok = p.(PowerController)
	add(CanPower, ok)
	_, ok = p.(BootController)
	add(CanBoot, ok)
	_, ok = p.(MediaController)
	add(CanMedia, ok)
	_, ok = p.(Imager)
	add(CanImage, ok)
	_, ok = p.(RemoteExecutor)
	add(CanExec, ok)
	_, ok = p.(ClusterJoiner)
	add(CanJoin, ok)
	_, ok = p.(NetConfigurator)
	add(CanNet, ok)
	_, ok = p.(Console)
	add(CanConsole, ok)
	_, ok = p.(HealthReader)
	add(CanHealth, ok)
	_, ok = p.(Identifier)
	add(CanIdentify, ok)
	_, ok = p.(EventLog)
	add(CanEvents, ok)
	_, ok = p.(BMCResetter)
	add(CanReset, ok)
	_, ok = p.(InventoryReader)
	add(CanInventory, ok)
	return cs
}

// Needs returns the capabilities that a step needs. A reboot in band needs no power button. A
// reboot through the BMC, or in the default mode, does.
func Needs(s *holdfastv1.Step) []Capability {
	switch k := s.GetKind().(type) {
	case *holdfastv1.Step_Ssh:
		return []Capability{CanExec}
	case *holdfastv1.Step_Reboot:
		if k.Reboot.GetMode() == "inband" {
			return []Capability{CanInspect, CanExec}
		}
		return []Capability{CanInspect, CanPower}
	case *holdfastv1.Step_Netboot:
		return []Capability{CanBoot}
	case *holdfastv1.Step_Repave:
		return []Capability{CanImage}
	case *holdfastv1.Step_Join, *holdfastv1.Step_Verify:
		return []Capability{CanJoin}
	case *holdfastv1.Step_Net:
		return []Capability{CanNet}
	case *holdfastv1.Step_Power:
		return []Capability{CanPower}
	case *holdfastv1.Step_Inspect:
		return []Capability{CanInspect}
	case *holdfastv1.Step_Identify:
		return []Capability{CanIdentify}
	case *holdfastv1.Step_EventLog, *holdfastv1.Step_ClearEventLog:
		return []Capability{CanEvents}
	case *holdfastv1.Step_ResetBmc:
		return []Capability{CanReset, CanInspect}
	case *holdfastv1.Step_Media:
		return []Capability{CanMedia}
	case *holdfastv1.Step_Inventory:
		return []Capability{CanInventory}
	case *holdfastv1.Step_Console:
		return []Capability{CanConsole}
	case *holdfastv1.Step_Rma:
		if k.Rma.GetWipe() {
			return []Capability{CanPower, CanImage}
		}
		return []Capability{CanPower}
	}
	return nil
}

// Missing returns the first capability that the plan needs and the provider lacks, and the name
// of the step that needs it. It returns "" if nothing is missing.
func Missing(p Provider, plan *holdfastv1.Plan) (c Capability, step string) {
	have := Capabilities(p)
	for _, s := range plan.GetSteps() {
		for _, need := range Needs(s) {
			if _, erases := p.(Eraser); need == CanImage && s.GetRma() != nil && erases {
				continue // the host erases its own disks
			}
			if !slices.Contains(have, need) {
				return need, s.GetName()
			}
		}
	}
	return "", ""
}
