package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of a machine that is taken out.
const (
	evidenceWorkloads = "workloads" // why no workload is lost
	evidenceWiped     = "wiped"     // what erased the disks
	evidenceLight     = "locator_light"

	disksErased = "disks erased "
)

// rmaStep prepares a machine for its return.
type rmaStep struct{ *Attempt }

// rma prepares a machine for its return. It checks that the machine has no workloads, erases the
// disks if requested, powers the machine off, and switches its locator light on for the technician.
// It is idempotent: parts that are done are skipped, and facts that cannot be read after power off
// are recorded before.
func (a rmaStep) rma(power providers.PowerController, s *holdfastv1.RmaAction) Action {
	wipe := a.flag(s.GetWipe(), "wipe")
	return Action{
		Reads:  "power",
		Before: a.powerToTakeOut(power),
		Do: func(ctx context.Context) error {
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
				// A wiped host has no operating system to shut down.
				p := &powerStep{Attempt: a.Attempt, bmc: power}
				if err := p.turn(ctx, providers.PowerOff, a.stopping(wipe, s.GetShutdownSeconds())); err != nil {
					return err
				}
				what = "powered off for return "
				a.light(ctx)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if a.Seen[fsm.EvidenceDisks] == "" {
				a.AddEvidence(map[string]string{fsm.EvidenceDisks: "disks not erased"})
			}
			reason, ticket := a.param(s.GetReason(), "reason"), a.param(s.GetTicket(), "ticket")
			a.AddEvidence(map[string]string{"reason": reason, "ticket": ticket})
			a.Message = strings.TrimSpace(what+strings.TrimSpace(reason+" "+ticket)) + "; " + a.Seen[fsm.EvidenceDisks]
			return nil
		},
	}
}

// spared returns an error if the machine may still run workloads: it is in a cluster, as
// far as known, and was not drained by this run or before.
func (a rmaStep) spared(force bool) error {
	why := a.undisturbed()
	if why == "" && !force {
		return providers.Errorf(providers.Unsupported, "take out "+a.Machine.GetMachineId(),
			"it is in a cluster and not drained (conditions InCustomerCluster and Drained): "+
				"drain it first, with a step drain-node or drain-check, or set force")
	}
	if why == "" {
		why = "taken out by force: it is in a cluster and not drained"
		a.Say("%s", why)
	}
	a.AddEvidence(map[string]string{evidenceWorkloads: why})
	return nil
}

// undisturbed returns the reason why no workload is lost with the machine, or "" if one
// may be lost.
func (a rmaStep) undisturbed() string {
	m, ok := a.State.View().Machine(a.Machine.GetMachineId())
	if !ok {
		return "the machine is gone"
	}
	holds := map[string]bool{}
	for _, c := range m.GetStatus().GetConditions() {
		holds[c.GetType()] = c.GetStatus() // the last known status, if it is unknown now
	}
	for _, s := range a.Run.GetSteps() {
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

// wiped reports whether the disks are already erased: by this attempt under an earlier
// leader, or by an earlier attempt. After that the host can neither erase them again nor
// answer.
func (a rmaStep) wiped() bool {
	for _, earlier := range a.Status.GetAttempts() {
		if by := earlier.GetEvidenceAfter()[evidenceWiped]; by != "" {
			a.AddEvidence(map[string]string{evidenceWiped: by, fsm.EvidenceDisks: disksErased + by})
		}
	}
	return a.Seen[evidenceWiped] != ""
}

// wipe erases the disks: from within the host if it can, otherwise with the provider's
// installer. The result is recorded before power off.
func (a rmaStep) wipe(ctx context.Context) error {
	var by string
	if host, ok := a.Provider.(eraser); ok {
		if a.Before[evidencePower] != string(providers.PowerOn) {
			return providers.Errorf(providers.Unsupported, "erase the disks of "+a.Machine.GetMachineId(),
				"its power is not on, and its host has to erase them: power it on first")
		}
		n, err := a.erase(ctx, host)
		if err != nil {
			return err
		}
		by = fmt.Sprintf("by the host (%d of them)", n)
	} else if imager, ok := a.Provider.(providers.Imager); ok {
		if err := installStep(a).install(ctx, imager, providers.InstallSpec{Wipe: true}); err != nil {
			return err
		}
		by = "by the installer"
	} else {
		return providers.Errorf(providers.Unsupported, "wipe "+a.Machine.GetMachineId(),
			"provider %s has neither %s nor a host that erases its own disks", a.Provider.Kind(), providers.CanImage)
	}
	return a.Record(ctx, map[string]string{evidenceWiped: by, fsm.EvidenceDisks: disksErased + by})
}

// lightTime bounds the time spent on a locator light.
const lightTime = 30 * time.Second

// light switches the locator light on, if there is one. A failure is recorded as
// evidence, but does not fail the step.
func (a rmaStep) light(ctx context.Context) {
	l, ok := a.Provider.(providers.Identifier)
	if !ok {
		return
	}
	short, stop := context.WithTimeout(ctx, lightTime)
	defer stop()
	is, err := l.Light(short, a.Machine)
	if err == nil && is != providers.LightOn {
		err = a.Effect(short, "switch the locator light on", func(ctx context.Context) error {
			return l.Identify(ctx, a.Op, a.Machine, true)
		})
		if err == nil {
			if is, err = l.Light(short, a.Machine); err == nil && is == providers.LightUnknown {
				is = "on, not read back"
			}
		}
	}
	if err != nil {
		is = providers.LightState("unknown: " + task.Clean(err.Error()))
		a.Say("the locator light is not on: %v", err)
	}
	a.AddEvidence(map[string]string{evidenceLight: string(is)})
}
