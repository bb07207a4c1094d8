package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of power work.
const (
	proofPower   = "power"
	proofBootID  = "boot_id"
	proofOffSeen = "power_off_seen"

	// The soft off that was asked for, on record before it is.
	proofSoftOff   = "soft_off_at"
	proofSoftUntil = "soft_off_until"
	proofSoftSent  = "soft_off_sent_at"  // the BMC has taken the request
	proofSoftAgain = "soft_off_again_at" // the second request, where nobody knows of the first
)

// reboot picks how: through the BMC where there is a power button, in band where there is none or
// the step says so.
func (a *attempt) reboot(s *holdfastv1.Reboot) (action, error) {
	power, _ := a.provider.(providers.PowerController)
	inspector, ok := a.provider.(providers.Inspector)
	if !ok {
		return action{}, providers.Errorf(providers.Unsupported, "reboot", "provider %s lacks %s", a.provider.Kind(), providers.CanInspect)
	}
	if s.GetMode() == "inband" || (s.GetMode() != "bmc" && (power == nil || a.noBMC())) {
		return with(a, providers.CanExec, func(p providers.RemoteExecutor) action { return a.rebootInband(p, inspector) })
	}
	if power == nil {
		return action{}, providers.Errorf(providers.Unsupported, "reboot", "provider %s lacks %s", a.provider.Kind(), providers.CanPower)
	}
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			state, err := power.PowerState(ctx, a.machine)
			if err != nil {
				return nil, err
			}
			seen := map[string]string{proofPower: string(state)}
			// A host that does not answer has no boot id to compare: then the power itself is the
			// evidence.
			if f, err := inspector.Inspect(ctx, a.machine); err == nil && f.BootID != "" {
				seen[proofBootID] = f.BootID
			}
			return seen, nil
		},
		do: func(ctx context.Context) error {
			return a.rebootBMC(ctx, power, inspector, a.stopping(s.GetForce(), s.GetShutdownSeconds()))
		},
	}, nil
}

// bmcless is a provider some of whose machines have no BMC.
type bmcless interface {
	HasBMC(m providers.Machine) bool
}

// noBMC reports whether the machine has no BMC, though its provider can drive one.
func (a *attempt) noBMC() bool {
	p, ok := a.provider.(bmcless)
	return ok && !p.HasBMC(a.machine)
}

// rebootBMC is off, seen off, on, seen on, booted: never "cycle" (docs/concepts.md).
func (a *attempt) rebootBMC(ctx context.Context, power providers.PowerController, inspector providers.Inspector, how stopping) error {
	rebooted := func(ctx context.Context) (bool, error) { return a.booted(ctx, inspector) }
	isOff := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOff) }

	// Was it off already, or has an earlier leader turned it off, or even on again?
	wasOff := a.before[proofPower] == string(providers.PowerOff) || a.seen[proofOffSeen] != ""
	if !wasOff {
		// One that was asked to power off may take its time, and nobody has pressed on: that comes
		// after off was recorded.
		if a.adopted != nil && a.seen[proofSoftOff] == "" {
			done := false
			err := a.settle(ctx, func(ctx context.Context) (bool, error) {
				var err error
				if done, err = rebooted(ctx); done || err != nil {
					return done, err
				}
				if wasOff, err = isOff(ctx); wasOff || err != nil {
					return wasOff, err
				}
				return false, a.answersAsBefore(ctx, inspector)
			})
			if err != nil || done {
				return err
			}
		}
		if !wasOff {
			if err := a.powerOff(ctx, power, how); err != nil {
				return err
			}
		}
		a.prove(map[string]string{proofOffSeen: stamp(time.Now())})
		if a.before[proofBootID] == "" || a.seen[proofSoftOff] != "" || a.bootsInstaller() {
			// There will be no boot id to compare, or a soft off is recorded: that it was off must
			// be, too, before it is on again.
			if err := a.record(ctx, a.seen); err != nil {
				return err
			}
		}
	}
	if err := a.settle(ctx, func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOn) }); err != nil {
		return err
	}
	if err := a.powerOn(ctx, power); err != nil {
		return err
	}
	if a.bootsInstaller() {
		a.prove(map[string]string{proofPower: string(providers.PowerOn)})
		a.message = "power is on: the machine is on its way to its installer"
		return nil
	}
	return a.poll(ctx, "the host to boot", a.bootedOrUnseen(inspector))
}

// bootedOrUnseen is booted, or the power alone where nobody could ever tell more: it was seen off,
// it is on, and for a while the BMC has known nothing of the host. One that does tell of boots
// begins to within that while.
func (a *attempt) bootedOrUnseen(inspector providers.Inspector) func(context.Context) (bool, error) {
	var since time.Time
	return func(ctx context.Context) (bool, error) {
		f, err := inspector.Inspect(ctx, a.machine)
		if err != nil || !f.NoWitness() || a.before[proofBootID] != "" {
			since = time.Time{}
			return a.bootedBy(f, err)
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < a.cfg.UnseenBoot {
			return false, nil
		}
		a.prove(map[string]string{proofPower: string(providers.PowerOn)})
		a.message = "power was off and is on: nobody can tell whether the host is up (" + clean(f.ReachableReason) + ")"
		return true, nil
	}
}

// answersAsBefore returns an error for a host that answered before the attempt and does not now: it
// may be on its way down or up, for minutes. That must not be taken for a host that nobody has
// touched.
func (a *attempt) answersAsBefore(ctx context.Context, inspector providers.Inspector) error {
	if a.before[proofBootID] == "" {
		return nil
	}
	f, err := inspector.Inspect(ctx, a.machine)
	if err == nil && !f.Reachable {
		err = fmt.Errorf("the host of %s does not answer (%s)", a.machine.GetMachineId(), clean(f.ReachableReason))
	}
	return err
}

// booted reports whether the host is up with another boot id than before. Where no boot id could be
// seen before, up after off is enough.
func (a *attempt) booted(ctx context.Context, inspector providers.Inspector) (bool, error) {
	return a.bootedBy(inspector.Inspect(ctx, a.machine))
}

func (a *attempt) bootedBy(f providers.Facts, err error) (bool, error) {
	if err != nil || !f.Reachable {
		if err == nil && f.ReachableReason == "HostKeyMismatch" {
			// Borne until the deadline: an initramfs that waits for a passphrase has a key of its
			// own.
			err = providers.Errorf(providers.Transient, "boot "+a.machine.GetMachineId(),
				"what answers at %s has another host key than the one on record: if the host was installed anew, put the new key on record; if not, another host has its address", a.machine.GetSpec().GetSshEndpoint())
		}
		return false, err
	}
	if old := a.before[proofBootID]; old != "" {
		if f.BootID == "" || said(f.BootID) == old {
			return false, nil
		}
	} else if a.seen[proofOffSeen] == "" && a.before[proofPower] != string(providers.PowerOff) {
		return false, nil
	}
	a.prove(map[string]string{proofBootID: f.BootID, proofPower: string(providers.PowerOn)})
	a.message = "booted"
	return true, nil
}

func (a *attempt) powerIs(ctx context.Context, power providers.PowerController, want providers.PowerState) (bool, error) {
	state, err := power.PowerState(ctx, a.machine)
	return state == want, err
}

func (a *attempt) powerOn(ctx context.Context, power providers.PowerController) error {
	if on, err := a.powerIs(ctx, power, providers.PowerOn); err != nil || on {
		return err
	}
	if err := a.awaitTurn(ctx); err != nil {
		return err
	}
	return a.pressed(ctx, power, providers.ActionOn, "the power to be on", func(ctx context.Context) (bool, error) {
		return a.powerIs(ctx, power, providers.PowerOn)
	})
}
