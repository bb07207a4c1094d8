package step

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// power turns the power on, off, or off and on. On and off are idempotent. For a cycle,
// it records that the power was seen off before it turns the power on again, so that it
// cannot happen twice.
func (a *Attempt) power(power providers.PowerController, s *holdfastv1.Power) Action {
	how := a.stopping(a.flag(s.GetForce(), "force"), s.GetShutdownSeconds())
	return Action{
		Reads: "power",
		Before: func(ctx context.Context) (map[string]string, error) {
			state, err := readPower(ctx, a, power)
			return map[string]string{proofPower: string(state), "action": s.GetAction()}, err
		},
		Do: func(ctx context.Context) error {
			switch s.GetAction() {
			case "on":
				return a.turn(ctx, power, providers.PowerOn, stopping{})
			case "off":
				return a.turn(ctx, power, providers.PowerOff, how)
			}
			if a.Before[proofPower] != string(providers.PowerOff) && a.Seen[proofOffSeen] == "" {
				if err := a.turn(ctx, power, providers.PowerOff, how); err != nil {
					return err
				}
				if err := a.Record(ctx, map[string]string{proofOffSeen: stamp(time.Now())}); err != nil {
					return err
				}
			}
			return a.turn(ctx, power, providers.PowerOn, stopping{})
		},
	}
}

// turn sets the power to the wanted state. It first waits for the result of a press that
// an earlier leader may have sent.
func (a *Attempt) turn(
	ctx context.Context, power providers.PowerController, want providers.PowerState, how stopping,
) error {
	is := func(ctx context.Context) (bool, error) { return a.powerIs(ctx, power, want) }
	if err := a.settle(ctx, is); err != nil {
		return err
	}
	press, err := mustPress(ctx, a, power, want)
	if err != nil {
		return err
	}
	if a.Message = "power was already " + string(want); press {
		if want == providers.PowerOn {
			err = a.pressOn(ctx, power)
		} else {
			err = a.powerOff(ctx, power, how)
		}
		a.Message = "power is " + string(want)
	}
	if err == nil {
		a.Prove(map[string]string{proofPower: string(want)})
	}
	return err
}

// inspect reads the state of the machine into the evidence.
func (a *Attempt) inspect(inspector providers.Inspector) Action {
	return Action{Do: func(ctx context.Context) error {
		facts, err := inspector.Inspect(ctx, a.Machine)
		if err != nil {
			return err
		}
		seen := map[string]string{
			"reachable":        strconv.FormatBool(facts.Reachable),
			"reachable_reason": facts.ReachableReason,
			"bmc_reachable":    strconv.FormatBool(facts.BMCReachable),
			"bmc_reason":       facts.BMCReason,
			proofBootID:        facts.BootID,
			"image":            facts.Image,
		}
		a.Message = "inspected"
		if power, ok := a.Provider.(providers.PowerController); ok {
			state, err := powerOf(ctx, a, power, facts)
			if err != nil {
				return err
			}
			seen[proofPower] = string(state)
			a.Message = "power is " + string(state)
		}
		for k, v := range seen {
			if v == "" {
				delete(seen, k)
			}
		}
		a.Prove(seen)
		return nil
	}}
}
