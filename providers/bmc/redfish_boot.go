package bmc

import (
	"context"
	"net/http"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/holdfast-metal/holdfast/providers"
)

// How long an ETag and the rest of what a change of the boot device needs is good for, and how often is looked whether the change shows.
const (
	bootFresh  = 30 * time.Second
	verifyPoll = 100 * time.Millisecond
)

// usbCd is a boot target that gofish has no name for.
const usbCd = "UsbCd"

// targetsOf gives the Redfish names of a mode of ours, the preferred one first.
func targetsOf(mode string) []string {
	switch mode {
	case "PXE":
		return []string{string(redfish.PxeBootSourceOverrideTarget)}
	case "HTTP":
		return []string{string(redfish.UefiHTTPBootSourceOverrideTarget)}
	case "DISK":
		return []string{string(redfish.HddBootSourceOverrideTarget)}
	case "VIRTUAL_MEDIA":
		return []string{string(redfish.CdBootSourceOverrideTarget), usbCd}
	}
	return nil
}

// device is the override in our words. No override is the zero Mode: the machine boots in its own order. A service that shows no
// mode (Redfish 1.0) knows UEFI only, as far as we can tell.
func (b bootOverride) device() providers.BootDevice {
	d := providers.BootDevice{UEFI: b.Mode != string(redfish.LegacyBootSourceOverrideMode)}
	if b.Enabled == string(redfish.DisabledBootSourceOverrideEnabled) || b.Enabled == "" {
		return d
	}
	d.Persistent = b.Enabled == string(redfish.ContinuousBootSourceOverrideEnabled)
	switch redfish.BootSourceOverrideTarget(b.Target) {
	case redfish.PxeBootSourceOverrideTarget:
		d.Mode = "PXE"
	case redfish.UefiHTTPBootSourceOverrideTarget:
		d.Mode = "HTTP"
	case redfish.HddBootSourceOverrideTarget:
		d.Mode = "DISK"
	case redfish.CdBootSourceOverrideTarget, usbCd:
		d.Mode = "VIRTUAL_MEDIA"
	case redfish.NoneBootSourceOverrideTarget:
		d.Persistent = false
	default:
		d.Mode = b.Target // of a name that we have no word for
	}
	return d
}

func (h *redfishHost) boot(ctx context.Context) (providers.BootDevice, error) {
	s, err := h.read(ctx)
	if err != nil {
		return providers.BootDevice{}, err
	}
	return s.Boot.device(), nil
}

// setBoot reads, changes and reads back. It never leaves out what was asked for: a service that refuses the mode is not asked
// without it, unless it is in that mode already.
func (h *redfishHost) setBoot(ctx context.Context, d providers.BootDevice) error {
	prepare := providers.Unhurried(ctx)
	for try := 0; ; try++ {
		s, err := h.known(prepare, bootFresh)
		if err != nil {
			return err
		}
		change, err := s.Boot.change(d, h.quirksNow())
		if err != nil {
			return err
		}
		match := s.ETag
		if try == 2 || h.quirksNow().NoIfMatch { // twice it answered 412 to the ETag that it had just given: that is its own fault
			match = ""
		}
		err = h.patch(ctx, s.ODataID, match, change)
		mode := s.Boot.Mode
		if change["BootSourceOverrideMode"] == mode && mode != "" && refusesMode(err) {
			delete(change, "BootSourceOverrideMode") // it is in that mode: nothing is left out
			err = h.patch(ctx, s.ODataID, match, change)
		}
		if providers.ClassOf(err) == providers.Late {
			return err // what was read is kept, so that the next call is in time
		}
		h.stale()
		if statusOf(err) == http.StatusPreconditionFailed && try < 2 {
			continue // somebody else changed the system since we read it, and nothing was done
		}
		if err != nil {
			return err
		}
		return h.verify(prepare, "boot device", func(ctx context.Context) (any, bool, error) {
			got, err := h.boot(ctx)
			return got, got == d, err
		})
	}
}

// change is the body of a PATCH that makes d of b.
func (b bootOverride) change(d providers.BootDevice, q Quirks) (map[string]string, error) {
	const what = "set the boot device"
	names := targetsOf(d.Mode)
	if names == nil {
		return nil, providers.Errorf(providers.Unsupported, what, "mode %q is not one of PXE, HTTP, DISK, VIRTUAL_MEDIA", clip(d.Mode, 40))
	}
	target, err := pick(what, b.Targets, names...)
	if err != nil {
		return nil, err
	}
	enabled := string(redfish.OnceBootSourceOverrideEnabled)
	if d.Persistent {
		enabled = string(redfish.ContinuousBootSourceOverrideEnabled)
	}
	if enabled, err = pick(what, b.Enableds, enabled); err != nil {
		return nil, err
	}
	mode := string(redfish.LegacyBootSourceOverrideMode)
	if d.UEFI {
		mode = string(redfish.UEFIBootSourceOverrideMode)
	}
	if mode, err = pick(what, b.Modes, mode); err != nil {
		return nil, err
	}
	change := map[string]string{"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
	switch {
	case b.Mode == "" && !d.UEFI:
		return nil, providers.Errorf(providers.Unsupported, what, "the BMC does not let the boot mode be chosen, so legacy boot cannot be asked for")
	case b.Mode == "":
	case b.Mode != mode || !q.OmitSameBootMode:
		change["BootSourceOverrideMode"] = mode
	}
	return change, nil
}

// refusesMode says whether a PATCH may have been refused for the mode in it.
func refusesMode(err error) bool {
	switch statusOf(err) {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented:
		return true
	}
	return false
}

// patch changes the Boot property, if the system is still as it was read.
func (h *redfishHost) patch(ctx context.Context, system, match string, change map[string]string) error {
	if _, err := h.c.open(providers.Unhurried(ctx)); err != nil {
		return err
	}
	_, err := h.c.do(ctx, request{method: http.MethodPatch, path: system, body: map[string]any{"Boot": change}, match: match})
	return err
}

// verify reads until what was changed shows, for a while: "OK" is not evidence.
func (h *redfishHost) verify(ctx context.Context, what string, look func(context.Context) (got any, ok bool, err error)) error {
	for end := time.Now().Add(h.c.verify); ; {
		got, ok, err := look(ctx)
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return disagree("the BMC accepted the %s, but it reads back as %+v after %v", what, got, h.c.verify)
		}
		t := time.NewTimer(verifyPoll)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
