// Package step implements the kinds of steps. Choose returns the Action of a step, which observes
// the machine before the effect, does the effect, and gathers the evidence that it happened. An
// action that an earlier leader began observes before it acts, so that no effect is repeated.
//
// It reaches machines through the capabilities of a provider, and the cluster through Env. It must
// not decide how an outcome changes a run, and no effect may bypass Env.Effect.
package step

import (
	"cmp"
	"reflect"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"
)

// Choose returns the action of the step.
func (a *Attempt) Choose() (Action, error) {
	values, refused := fsm.ParseParams(a.Plan, a.Run.GetParams())
	if refused != nil { // which StartRun has checked
		return Action{}, providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(), "%w", refused)
	}
	a.values = values
	if choose := actions()[a.Kind]; choose != nil {
		return choose(a)
	}
	return Action{}, providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(),
		"this build does not know its kind")
}

// choose returns the action of an attempt.
type choose func(*Attempt) (Action, error)

// actions returns the implementation of each kind of step. Each kind has its own file.
func actions() map[string]choose {
	return map[string]choose{
		"ssh": with(func(a *Attempt, p providers.RemoteExecutor) Action {
			return a.unlessDead(drainStep{a}.setAside(a.ssh(p, a.Step.GetSsh())))
		}),
		"reboot":  func(a *Attempt) (Action, error) { return a.reboot(a.Step.GetReboot()) },
		"netboot": with(func(a *Attempt, p providers.BootController) Action { return a.netboot(p, a.Step.GetNetboot()) }),
		"repave":  with(func(a *Attempt, p providers.Imager) Action { return installStep{a}.repave(p, a.Step.GetRepave()) }),
		"join":    with(func(a *Attempt, p providers.ClusterJoiner) Action { return joinStep{a}.join(p, a.Step.GetJoin()) }),
		"verify": with(func(a *Attempt, p providers.ClusterJoiner) Action {
			return joinStep{a}.verify(p, a.Step.GetVerify())
		}),
		"net": with(func(a *Attempt, p providers.NetConfigurator) Action { return a.net(p, a.Step.GetNet()) }),
		"rma": with(func(a *Attempt, p providers.PowerController) Action { return rmaStep{a}.rma(p, a.Step.GetRma()) }),
		"power": with(func(a *Attempt, p providers.PowerController) Action {
			return (&powerStep{Attempt: a, bmc: p}).power(a.Step.GetPower())
		}),
		"inspect": with((*Attempt).inspect),
		"identify": with(func(a *Attempt, p providers.Identifier) Action {
			return lightStep{a}.identify(p, a.Step.GetIdentify())
		}),
		"event_log": with(func(a *Attempt, p providers.EventLog) Action {
			return eventStep{a}.readEvents(p, a.param(a.Step.GetEventLog().GetLog(), "log"))
		}),
		"clear_event_log": with(func(a *Attempt, p providers.EventLog) Action {
			return eventStep{a}.clearEvents(p, a.param(a.Step.GetClearEventLog().GetLog(), "log"))
		}),
		"reset_bmc": (*Attempt).resetBMC,
		"media": with(func(a *Attempt, p providers.MediaController) Action {
			return a.media(p, a.Step.GetMedia())
		}),
		"inventory": with((*Attempt).readInventory),
		"console": with(func(a *Attempt, p providers.Console) Action {
			return consoleStep{a}.console(p, a.Step.GetConsole())
		}),
	}
}

// with returns the choice of an action that needs a capability of the provider. StartRun has
// checked that it has the capability, but the configuration may have changed since.
func with[C any](how func(*Attempt, C) Action) choose {
	return func(a *Attempt) (Action, error) {
		p, ok := a.Provider.(C)
		if !ok {
			return Action{}, lacks(a, providers.Capability(reflect.TypeFor[C]().Name()))
		}
		return how(a, p), nil
	}
}

// lacks returns the error of a step whose provider does not have a capability.
func lacks(a *Attempt, c providers.Capability) error {
	return providers.Errorf(providers.Unsupported, "do step "+a.Step.GetName(),
		"provider %s lacks %s", a.Provider.Kind(), c)
}

// param returns the first value that is not empty: the step's own, the run's parameter,
// or one of the others.
func (a *Attempt) param(own, name string, others ...string) string {
	return cmp.Or(own, a.values.Text(name), cmp.Or(others...))
}

// flag reports whether a flag is set in the step or in the parameters of the run.
func (a *Attempt) flag(own bool, name string) bool {
	return own || a.values.Bool(name)
}

func (a *Attempt) clusterRef(own string) string {
	return fsm.ClusterRef(a.Machine, own, a.Run.GetParams())
}
