package step

import (
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Choose returns the action of the step. Each kind of step has its own file.
func (a *Attempt) Choose() (Action, error) {
	switch k := a.Step.GetKind().(type) {
	case *holdfastv1.Step_Netboot:
		return with(a, providers.CanBoot, func(p providers.BootController) Action { return a.netboot(p, k.Netboot) })
	case *holdfastv1.Step_Reboot:
		return a.reboot(k.Reboot)
	case *holdfastv1.Step_Repave:
		return with(a, providers.CanImage, func(p providers.Imager) Action { return installStep{a}.repave(p, k.Repave) })
	case *holdfastv1.Step_Ssh:
		return with(a, providers.CanExec, func(p providers.RemoteExecutor) Action {
			return a.unlessDead(drainStep{a}.setAside(a.ssh(p, k.Ssh)))
		})
	case *holdfastv1.Step_Join:
		return with(a, providers.CanJoin, func(p providers.ClusterJoiner) Action { return joinStep{a}.join(p, k.Join) })
	case *holdfastv1.Step_Verify:
		return with(a, providers.CanJoin, func(p providers.ClusterJoiner) Action { return joinStep{a}.verify(p, k.Verify) })
	case *holdfastv1.Step_Net:
		return with(a, providers.CanNet, func(p providers.NetConfigurator) Action { return a.net(p, k.Net) })
	case *holdfastv1.Step_Power:
		return with(a, providers.CanPower, func(p providers.PowerController) Action { return a.power(p, k.Power) })
	case *holdfastv1.Step_Identify:
		return with(a, providers.CanIdentify, func(p providers.Identifier) Action {
			return lightStep{a}.identify(p, k.Identify)
		})
	case *holdfastv1.Step_EventLog:
		return with(a, providers.CanEvents, eventStep{a}.readEvents)
	case *holdfastv1.Step_ClearEventLog:
		return with(a, providers.CanEvents, eventStep{a}.clearEvents)
	case *holdfastv1.Step_ResetBmc:
		look, ok := a.Provider.(providers.Inspector)
		if !ok {
			return Action{}, providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(),
				"provider %s lacks %s", a.Provider.Kind(), providers.CanInspect)
		}
		return with(a, providers.CanReset, func(p providers.BMCResetter) Action { return a.resetBMC(p, look) })
	case *holdfastv1.Step_Media:
		return with(a, providers.CanMedia, func(p providers.MediaController) Action { return a.media(p, k.Media) })
	case *holdfastv1.Step_Inventory:
		return with(a, providers.CanInventory, a.readInventory)
	case *holdfastv1.Step_Console:
		return with(a, providers.CanConsole, func(p providers.Console) Action { return consoleStep{a}.console(p, k.Console) })
	case *holdfastv1.Step_Inspect:
		return with(a, providers.CanInspect, a.inspect)
	case *holdfastv1.Step_Rma:
		return with(a, providers.CanPower, func(p providers.PowerController) Action { return rmaStep{a}.rma(p, k.Rma) })
	}
	return Action{}, providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(),
		"this build does not know its kind")
}

// with calls how with the provider as the capability that a step needs. StartRun has
// checked that it has the capability, but the configuration may have changed since.
func with[C any](a *Attempt, c providers.Capability, how func(C) Action) (Action, error) {
	p, ok := a.Provider.(C)
	if !ok {
		return Action{}, providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(),
			"provider %s lacks %s", a.Provider.Kind(), c)
	}
	return how(p), nil
}

// param returns the first value that is not empty: the step's own, the run's parameter,
// or one of the others.
func (a *Attempt) param(own, name string, others ...string) string {
	for _, v := range append([]string{own, a.Run.GetParams()[name]}, others...) {
		if v != "" {
			return v
		}
	}
	return ""
}

// flag reports whether a flag is set in the step or in the parameters of the run.
func (a *Attempt) flag(own bool, name string) bool {
	return own || a.Run.GetParams()[name] == "true"
}

func (a *Attempt) clusterRef(own string) string {
	return fsm.ClusterRef(a.Machine, own, a.Run.GetParams())
}
