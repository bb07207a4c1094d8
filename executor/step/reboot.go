package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// reboot chooses the way to reboot: through the BMC if there is one, otherwise, or if the
// step asks for it, in band.
func (a *Attempt) reboot(s *holdfastv1.Reboot) (Action, error) {
	power, _ := a.Provider.(providers.PowerController)
	inspector, ok := a.Provider.(providers.Inspector)
	if !ok {
		return Action{}, lacks(a, providers.CanInspect)
	}
	if s.GetMode() == "inband" || (s.GetMode() != "bmc" && (power == nil || a.noBMC())) {
		return with(func(a *Attempt, p providers.RemoteExecutor) Action {
			return inbandStep{a}.rebootInband(p, inspector)
		})(a)
	}
	if power == nil {
		return Action{}, lacks(a, providers.CanPower)
	}
	p := &powerStep{Attempt: a, bmc: power}
	return Action{
		Reads: "power",
		Before: func(ctx context.Context) (map[string]string, error) {
			state, err := p.read(ctx)
			if err != nil {
				return nil, err
			}
			seen := map[string]string{evidencePower: string(state)}
			// If the host does not answer there is no boot id to compare. Then the power
			// state is the evidence.
			if f, err := inspector.Inspect(ctx, a.Machine); err == nil && f.BootID != "" {
				seen[evidenceBootID] = f.BootID
			}
			return seen, nil
		},
		Do: func(ctx context.Context) error {
			p.resume()
			return p.reboot(ctx, inspector, a.stopping(a.flag(s.GetForce(), "force"), s.GetShutdownSeconds()))
		},
	}, nil
}

// bmcless is implemented by providers that also have machines without a BMC.
type bmcless interface {
	HasBMC(m providers.Machine) bool
}

// noBMC reports whether the machine has no BMC, though its provider supports BMCs.
func (a *Attempt) noBMC() bool {
	p, ok := a.Provider.(bmcless)
	return ok && !p.HasBMC(a.Machine)
}

// reboot reboots in separate steps: power off, observe off, power on, observe on,
// observe the boot. It never uses the BMC's "cycle" (docs/concepts.md).
func (a *powerStep) reboot(ctx context.Context, inspector providers.Inspector, how stopping) error {
	// Was it off already, or has an earlier leader or attempt powered it off, or even on again?
	wasOff := a.Before[evidencePower] == string(providers.PowerOff) || a.Seen[evidenceOffSeen] != ""
	if !wasOff {
		// If a soft off is recorded, powerOff waits for it. In that case no earlier leader can
		// have powered the machine on: that comes after off was recorded.
		if a.Adopted && a.Seen[evidenceSoftOff] == "" {
			done := false
			err := a.settle(ctx, func(ctx context.Context) (bool, error) {
				var err error
				if done, err = a.booted(ctx, inspector); done || err != nil {
					return done, err
				}
				if wasOff, err = a.is(providers.PowerOff)(ctx); wasOff || err != nil {
					return wasOff, err
				}
				return false, a.answersAsBefore(ctx, inspector)
			})
			if err != nil || done {
				return err
			}
		}
		if !wasOff {
			if err := a.powerOff(ctx, how); err != nil {
				return err
			}
		}
		a.AddEvidence(map[string]string{evidenceOffSeen: stamp(time.Now())})
		// Record that the power was off before it is on again. Whatever happens after that, no
		// attempt switches it off another time.
		if err := a.Record(ctx, a.Seen); err != nil {
			return err
		}
	}
	if err := a.turn(ctx, providers.PowerOn, stopping{}); err != nil {
		return err
	}
	if a.bootsInstaller() {
		a.Message = "power is on: the machine is booting its installer"
		return nil
	}
	err := a.Poll(ctx, waitOf(holdfastv1.Wait_BOOT, host), a.bootedOrUnseen(inspector))
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errUnseen
	}
	return fmt.Errorf("%w (%s)", errUnseen, task.Clean(err.Error()))
}

// errUnseen is the error of an attempt that has done its part.
var errUnseen = errors.New("power was off and is on, the boot was not seen; it is not pressed again")

// resume takes over the evidence of an earlier attempt that has switched the machine off: the step
// has to do that once. If the boot was not seen, the next attempt waits for it, and compares the
// boot id with that of before the first press.
func (a *powerStep) resume() {
	for _, earlier := range a.Status.GetAttempts() {
		off := earlier.GetEvidenceAfter()[evidenceOffSeen]
		if earlier.GetNumber() >= a.Op.Attempt || off == "" {
			continue
		}
		if a.Seen[evidenceOffSeen] == "" {
			a.Say("attempt %d has seen the power off: it is not switched off again", earlier.GetNumber())
		}
		a.Before = maps.Clone(a.Before)
		if a.Before == nil {
			a.Before = map[string]string{}
		}
		delete(a.Before, evidenceBootID)
		if id := earlier.GetEvidenceBefore()[evidenceBootID]; id != "" {
			a.Before[evidenceBootID] = id
		}
		a.AddEvidence(map[string]string{evidenceOffSeen: off})
		return
	}
}

// installerBooter is implemented by providers whose installer does not answer while it
// runs: the only evidence of a reboot into it is that the power is on.
type installerBooter interface{ BootsInstaller() bool }

// bootsInstaller reports whether the attempt boots the machine into the installer of one
// of the next steps.
func (a *Attempt) bootsInstaller() bool {
	if p, ok := a.Provider.(installerBooter); !ok || !p.BootsInstaller() {
		return false
	}
	at := false
	for _, s := range a.Run.GetSteps() {
		switch {
		case s.GetName() == a.Step.GetName():
			at = true
		case !at:
		case s.GetKind() == "repave":
			return true
		case s.GetKind() != "netboot":
			return false
		}
	}
	return false
}

// bootedOrUnseen returns a condition like booted that also accepts the power state alone
// if the boot cannot be observed: the power was seen off, it is on, and the BMC has
// reported nothing about the host for UnseenBoot. A BMC that reports boots at all does so
// within that time. If the boot id was known before, the host is waited for, unless the BMC
// reports a boot that does not go on.
func (a *Attempt) bootedOrUnseen(inspector providers.Inspector) func(context.Context) (bool, error) {
	var since time.Time
	return func(ctx context.Context) (bool, error) {
		f, err := inspector.Inspect(ctx, a.Machine)
		known := a.Before[evidenceBootID] != "" && f.ReachableReason != providers.BootNotReported
		if err != nil || !f.HostUnobservable() || known || f.Power == providers.PowerOff {
			since = time.Time{}
			return a.bootedBy(f, err)
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < a.Config.UnseenBoot {
			return false, nil
		}
		a.AddEvidence(map[string]string{evidencePower: string(providers.PowerOn)})
		a.Message = "power was off and is on: cannot observe whether the host is up (" + task.Clean(f.ReachableReason) + ")"
		return true, nil
	}
}

// answersAsBefore returns an error if the host answered before the attempt and does not
// answer now. It may be shutting down or booting, for minutes, which must not be mistaken
// for a host that was never asked to reboot.
func (a *Attempt) answersAsBefore(ctx context.Context, inspector providers.Inspector) error {
	if a.Before[evidenceBootID] == "" {
		return nil
	}
	f, err := inspector.Inspect(ctx, a.Machine)
	if err == nil && !f.Reachable {
		err = fmt.Errorf("the host of %s does not answer (%s)", a.Machine.GetMachineId(), task.Clean(f.ReachableReason))
	}
	return err
}

// booted reports whether the host is up with another boot id than before. If its boot id
// was not known before, it is enough that the host is up after the power was off.
func (a *Attempt) booted(ctx context.Context, inspector providers.Inspector) (bool, error) {
	return a.bootedBy(inspector.Inspect(ctx, a.Machine))
}

func (a *Attempt) bootedBy(f providers.Facts, err error) (bool, error) {
	if err != nil || !f.Reachable {
		if err == nil && f.ReachableReason == "HostKeyMismatch" {
			// Transient, because an initramfs that waits for a passphrase has its own key.
			err = providers.Errorf(providers.Transient, "boot "+a.Machine.GetMachineId(),
				"the host at %s has another host key than the recorded one: "+
					"if the host was reinstalled, record its new key; if not, another host has its address",
				a.Machine.GetSpec().GetSshEndpoint())
		}
		return false, err
	}
	if old := a.Before[evidenceBootID]; old != "" {
		if f.BootID == "" || task.Value(f.BootID) == old {
			return false, nil
		}
	} else if a.Seen[evidenceOffSeen] == "" && a.Before[evidencePower] != string(providers.PowerOff) {
		return false, nil
	}
	a.AddEvidence(map[string]string{evidenceBootID: f.BootID, evidencePower: string(providers.PowerOn)})
	a.Message = "booted"
	return true, nil
}
