package providers

import (
	"slices"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
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
	var have []Capability
	for _, c := range []struct {
		name Capability
		of   func(Provider) bool
	}{
		{CanInspect, is[Inspector]},
		{CanPower, is[PowerController]},
		{CanBoot, is[BootController]},
		{CanMedia, is[MediaController]},
		{CanImage, is[Imager]},
		{CanExec, is[RemoteExecutor]},
		{CanJoin, is[ClusterJoiner]},
		{CanNet, is[NetConfigurator]},
		{CanConsole, is[Console]},
		{CanHealth, is[HealthReader]},
		{CanIdentify, is[Identifier]},
		{CanEvents, is[EventLog]},
		{CanReset, is[BMCResetter]},
		{CanInventory, is[InventoryReader]},
	} {
		if c.of(p) {
			have = append(have, c.name)
		}
	}
	return have
}

func is[C any](p Provider) bool {
	_, ok := p.(C)
	return ok
}

// Needs returns the capabilities that a step needs: those that its kind declares, except that a
// reboot in band needs no power button, and that a wipe also needs an installer.
func Needs(s *holdfastv1.Step) []Capability {
	var needs []Capability
	for _, name := range stepkind.Of(s).GetNeeds() {
		needs = append(needs, Capability(name))
	}
	switch {
	case s.GetReboot().GetMode() == "inband":
		return []Capability{CanInspect, CanExec}
	case s.GetRma().GetWipe():
		return append(needs, CanImage)
	}
	return needs
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
