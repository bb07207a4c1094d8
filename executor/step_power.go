package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The evidence of power work.
const (
	proofPower   = "power"
	proofBootID  = "boot_id"
	proofOffSeen = "power_off_seen"
)

// reboot picks how: through the BMC where there is a power button, in band where there is none or the
// step says so.
func (a *attempt) reboot(s *holdfastv1.Reboot) (action, error) {
	power, _ := a.provider.(providers.PowerController)
	inspector, ok := a.provider.(providers.Inspector)
	if !ok {
		return action{}, providers.Errorf(providers.Unsupported, "reboot", "provider %s lacks %s", a.provider.Kind(), providers.CanInspect)
	}
	if s.GetMode() == "inband" || (s.GetMode() != "bmc" && power == nil) {
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
			// A host that does not answer has no boot id to compare: then the power itself is the evidence.
			if f, err := inspector.Inspect(ctx, a.machine); err == nil && f.BootID != "" {
				seen[proofBootID] = f.BootID
			}
			return seen, nil
		},
		do: func(ctx context.Context) error { return a.rebootBMC(ctx, power, inspector, s.GetForce()) },
	}, nil
}

// rebootBMC is off, seen off, on, seen on, booted: never "cycle" (DESIGN §7).
func (a *attempt) rebootBMC(ctx context.Context, power providers.PowerController, inspector providers.Inspector, force bool) error {
	rebooted := func(ctx context.Context) (bool, error) { return a.booted(ctx, inspector) }
	isOff := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOff) }

	// Was it off already, or has an earlier leader turned it off, or even on again?
	wasOff := a.before[proofPower] == string(providers.PowerOff) || a.seen[proofOffSeen] != ""
	if !wasOff {
		if a.adopted != nil {
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
			if err := a.powerOff(ctx, power, force); err != nil {
				return err
			}
		}
		a.prove(map[string]string{proofOffSeen: time.Now().UTC().Format(time.RFC3339Nano)})
		if a.before[proofBootID] == "" {
			// There will be no boot id to compare: that it was off must be on record before it is on again.
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
	return a.poll(ctx, "the host to boot", rebooted)
}

// answersAsBefore gives an error for a host that answered before the attempt and does not now: it may be on its way down or
// up, for minutes. That must not be taken for a host that nobody has touched.
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

// booted says whether the host is up with another boot id than before. Where no boot id could be seen before, up
// after off is enough.
func (a *attempt) booted(ctx context.Context, inspector providers.Inspector) (bool, error) {
	f, err := inspector.Inspect(ctx, a.machine)
	if err != nil || !f.Reachable {
		return false, err
	}
	if old := a.before[proofBootID]; old != "" {
		if f.BootID == "" || f.BootID == old {
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

// powerOff asks the operating system first, unless forced, and presses the button when it does not listen.
func (a *attempt) powerOff(ctx context.Context, power providers.PowerController, force bool) error {
	isOff := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOff) }
	if !force {
		err := a.press(ctx, power, providers.ActionSoftOff)
		if err == nil {
			softCtx, stop := context.WithTimeout(ctx, a.cfg.SoftOff)
			err = a.poll(softCtx, "the operating system to power off", isOff)
			stop()
			if err == nil || ctx.Err() != nil || a.broken != nil {
				return err
			}
			a.say("the operating system did not power off within %s", a.cfg.SoftOff)
		} else if providers.ClassOf(err) != providers.Unsupported {
			return err
		}
	}
	if err := a.press(ctx, power, providers.ActionHardOff); err != nil {
		return err
	}
	return a.poll(ctx, "the power to be off", isOff)
}

func (a *attempt) powerOn(ctx context.Context, power providers.PowerController) error {
	if on, err := a.powerIs(ctx, power, providers.PowerOn); err != nil || on {
		return err
	}
	if err := a.press(ctx, power, providers.ActionOn); err != nil {
		return err
	}
	return a.poll(ctx, "the power to be on", func(ctx context.Context) (bool, error) {
		return a.powerIs(ctx, power, providers.PowerOn)
	})
}

func (a *attempt) press(ctx context.Context, power providers.PowerController, action providers.PowerAction) error {
	return a.effect(ctx, "power "+string(action), func(ctx context.Context) error {
		return power.SetPower(ctx, a.op, a.machine, action)
	})
}

// rebootInband asks the host to reboot. The boot id is the only evidence there can be.
func (a *attempt) rebootInband(exec providers.RemoteExecutor, inspector providers.Inspector) action {
	rebooted := func(ctx context.Context) (bool, error) { return a.booted(ctx, inspector) }
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			f, err := inspector.Inspect(ctx, a.machine)
			if err != nil {
				return nil, err
			}
			if f.BootID == "" {
				return nil, fmt.Errorf("read the boot id of %s: the host does not answer (%s)", a.machine.GetMachineId(), f.ReachableReason)
			}
			return map[string]string{proofBootID: f.BootID}, nil
		},
		do: func(ctx context.Context) error {
			asked := false
			if a.adopted != nil {
				// The host knows the attempt's command by its token, once it answers: it may be booting.
				done := false
				err := a.poll(ctx, "the host to tell whether it was asked to reboot", func(ctx context.Context) (bool, error) {
					var err error
					if done, err = rebooted(ctx); done || err != nil {
						return done, err
					}
					st, err := exec.CommandStatus(ctx, a.machine, a.op.Token(), 0)
					asked = st.State != providers.WorkNone
					return err == nil, err
				})
				if err != nil || done {
					return err
				}
			}
			if !asked {
				err := a.effect(ctx, "reboot from within", func(ctx context.Context) error {
					return exec.StartCommand(ctx, a.op, a.machine, a.op.Token(), providers.Command{Path: "systemctl", Args: []string{"reboot"}, Timeout: time.Minute})
				})
				if err != nil {
					return err
				}
			}
			return a.poll(ctx, "the host to boot", rebooted)
		},
	}
}

// rma powers the machine off for good, after wiping it where that is asked for. It converges: what is done is left alone.
func (a *attempt) rma(power providers.PowerController, s *holdfastv1.RmaAction) action {
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			state, err := power.PowerState(ctx, a.machine)
			return map[string]string{proofPower: string(state)}, err
		},
		do: func(ctx context.Context) error {
			if s.GetWipe() {
				imager, ok := a.provider.(providers.Imager)
				if !ok {
					return providers.Errorf(providers.Unsupported, "wipe "+a.machine.GetMachineId(), "provider %s lacks %s", a.provider.Kind(), providers.CanImage)
				}
				if err := a.install(ctx, imager, providers.InstallSpec{Wipe: true}); err != nil {
					return err
				}
				a.prove(map[string]string{"wiped": "true"})
			}
			isOff := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, providers.PowerOff) }
			if err := a.settle(ctx, isOff); err != nil {
				return err
			}
			off, err := isOff(ctx)
			if err == nil && !off {
				err = a.powerOff(ctx, power, s.GetWipe()) // a wiped host has nothing that could be asked
			}
			if err != nil {
				return err
			}
			reason, ticket := a.param(s.GetReason(), "reason"), a.param(s.GetTicket(), "ticket")
			a.prove(map[string]string{proofPower: string(providers.PowerOff), "reason": reason, "ticket": ticket})
			a.message = strings.TrimSpace("powered off for return " + strings.TrimSpace(reason+" "+ticket))
			return nil
		},
	}
}
