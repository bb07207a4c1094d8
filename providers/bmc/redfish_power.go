package bmc

import (
	"context"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/holdfast-metal/holdfast/providers"
)

// power reads the power state. On its way from one to the other, or paused, it is unknown: look again.
func (h *redfishHost) power(ctx context.Context) (providers.PowerState, error) {
	s, err := h.read(ctx)
	if err != nil {
		return providers.PowerUnknown, err
	}
	switch redfish.PowerState(s.PowerState) {
	case redfish.OnPowerState:
		return providers.PowerOn, nil
	case redfish.OffPowerState:
		return providers.PowerOff, nil
	}
	return providers.PowerUnknown, nil
}

// setPower presses. The values that a service takes for a press and where it takes them are kept: an effect has half a second, and
// some services take longer for one answer.
func (h *redfishHost) setPower(ctx context.Context, a providers.PowerAction) error {
	prepare := unhurried(ctx)
	s, err := h.known(prepare, time.Hour)
	if err != nil {
		return err
	}
	reset := s.Actions.Reset
	if reset.Target == "" {
		reset.Target = s.ODataID + "/Actions/ComputerSystem.Reset" // Redfish 1.0 services may leave it out
	}
	types, err := h.resetTypes(prepare, &s.Actions.Reset)
	if err != nil {
		return err
	}
	want := providers.PowerOff
	var t string
	switch a {
	case providers.ActionOn:
		want = providers.PowerOn
		t, err = pick("turn on", types, string(redfish.OnResetType), string(redfish.ForceOnResetType))
	case providers.ActionHardOff:
		t, err = pick("turn off hard", types, string(redfish.ForceOffResetType))
	case providers.ActionSoftOff:
		t, err = pick("turn off softly", types, string(redfish.GracefulShutdownResetType))
	default:
		err = unknownAction(a)
	}
	if err != nil {
		return err
	}
	err = h.post(ctx, reset.Target, map[string]string{"ResetType": t})
	if statusOf(err) != 0 && providers.ClassOf(classify("", err, true)) != providers.Auth { // some call it an error that it is so already; it was not done in any case
		if is, rerr := h.power(prepare); rerr == nil && is == want {
			return nil
		}
	}
	return err
}

func unknownAction(a providers.PowerAction) error {
	return providers.Errorf(providers.Unsupported, "set the power", "action %q is not one of on, soft-off, hard-off", clip(string(a), 40))
}
