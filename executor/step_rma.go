package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of a machine that goes back.
const (
	proofWorkloads = "workloads" // why none is lost
	proofWiped     = "wiped"     // by what
	proofLight     = "locator_light"
)

// rma takes a machine out: no workloads on it, its disks erased where that is asked for, shut down,
// off, and its locator light on for whoever pulls it. It converges: what is done is left alone, and
// what cannot be looked at any more once the power is off is recorded before.
func (a *attempt) rma(power providers.PowerController, s *holdfastv1.RmaAction) action {
	wipe := a.flag(s.GetWipe(), "wipe")
	return action{
		before: a.powerToTakeOut(power),
		do: func(ctx context.Context) error {
			if err := a.spared(a.flag(s.GetForce(), "force")); err != nil {
				return err
			}
			if wipe && !a.wiped() {
				if err := a.wipe(ctx); err != nil {
					return err
				}
			}
			gone, err := a.beyondReach(ctx, power, s)
			if err != nil {
				return err
			}
			what := "its power cannot be switched off, taken out for return "
			if !gone {
				// A wiped host has nothing that could be asked.
				if err := a.turn(ctx, power, providers.PowerOff, a.stopping(wipe, s.GetShutdownSeconds())); err != nil {
					return err
				}
				what = "powered off for return "
				a.light(ctx)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			reason, ticket := a.param(s.GetReason(), "reason"), a.param(s.GetTicket(), "ticket")
			a.prove(map[string]string{"reason": reason, "ticket": ticket})
			a.message = strings.TrimSpace(what + strings.TrimSpace(reason+" "+ticket))
			return nil
		},
	}
}

// spared refuses while workloads may be on the machine: it is a member of a cluster, as far as
// anybody knows, and was not drained, neither by this run nor before.
func (a *attempt) spared(force bool) error {
	why := a.undisturbed()
	if why == "" && !force {
		return providers.Errorf(providers.Unsupported, "take out "+a.machine.GetMachineId(),
			"it is in a cluster and not drained (conditions InCustomerCluster and Drained): drain it first, with a step drain-node or drain-check, or set force")
	}
	if why == "" {
		why = "taken out by force: it is in a cluster and not drained"
		a.say("%s", why)
	}
	a.prove(map[string]string{proofWorkloads: why})
	return nil
}

// undisturbed reports why no workload is lost with the machine; "" if one may be.
func (a *attempt) undisturbed() string {
	m, ok := a.state.View().Machine(a.machine.GetMachineId())
	if !ok {
		return "the machine is gone"
	}
	holds := map[string]bool{}
	for _, c := range m.GetStatus().GetConditions() {
		holds[c.GetType()] = c.GetStatus() // while it is unknown: what was last known
	}
	for _, s := range a.run.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED && fsm.Drains(s) && !fsm.Skipped(s) {
			return "drained by step " + s.GetName()
		}
	}
	switch {
	case !holds["InCustomerCluster"]:
		return "not in a cluster"
	case holds["Drained"]:
		return "drained"
	}
	return ""
}

// wiped reports whether the disks are erased already: by this attempt under an earlier leader, or
// by one before it, after which a host can neither erase them again nor tell.
func (a *attempt) wiped() bool {
	for _, earlier := range a.status.GetAttempts() {
		if by := earlier.GetEvidenceAfter()[proofWiped]; by != "" {
			a.prove(map[string]string{proofWiped: by})
		}
	}
	return a.seen[proofWiped] != ""
}

// wipe erases the disks: from within where the host can, else by the provider's installer. That it
// was done is recorded before the power goes off.
func (a *attempt) wipe(ctx context.Context) error {
	var by string
	if host, ok := a.provider.(eraser); ok {
		if a.before[proofPower] != string(providers.PowerOn) {
			return providers.Errorf(providers.Unsupported, "erase the disks of "+a.machine.GetMachineId(), "its power is not on, and its host is what erases them: power it on first")
		}
		n, err := a.erase(ctx, host)
		if err != nil {
			return err
		}
		by = fmt.Sprintf("%d disks, by the host", n)
	} else if imager, ok := a.provider.(providers.Imager); ok {
		if err := a.install(ctx, imager, providers.InstallSpec{Wipe: true}); err != nil {
			return err
		}
		by = "by the installer"
	} else {
		return providers.Errorf(providers.Unsupported, "wipe "+a.machine.GetMachineId(), "provider %s has neither %s nor a host that erases its own disks", a.provider.Kind(), providers.CanImage)
	}
	return a.record(ctx, map[string]string{proofWiped: by})
}

// lightTime bounds what is spent on a locator light.
const lightTime = 30 * time.Second

// light switches the locator light on, if there is one. A machine whose light is broken goes back
// all the same.
func (a *attempt) light(ctx context.Context) {
	l, ok := a.provider.(providers.Identifier)
	if !ok {
		return
	}
	short, stop := context.WithTimeout(ctx, lightTime)
	defer stop()
	is, err := l.Light(short, a.machine)
	if err == nil && is != providers.LightOn {
		err = a.effect(short, "switch the locator light on", func(ctx context.Context) error { return l.Identify(ctx, a.op, a.machine, true) })
		if err == nil {
			if is, err = l.Light(short, a.machine); err == nil && is == providers.LightUnknown {
				is = "on, as far as the BMC tells"
			}
		}
	}
	if err != nil {
		is = providers.LightState("unknown: " + clean(err.Error()))
		a.say("the locator light is not on: %v", err)
	}
	a.prove(map[string]string{proofLight: string(is)})
}
