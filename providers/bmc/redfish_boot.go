package bmc

import (
	"context"
	"net/http"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/holdfast-metal/holdfast/providers"
)

// How long an ETag and the rest of what a change of the boot device needs is good for, and how
// often is looked whether the change shows.
const (
	bootFresh  = 30 * time.Second
	verifyPoll = 100 * time.Millisecond
)

// usbCd is a boot target that gofish has no name for.
const usbCd = "UsbCd"

// targetsOf returns the Redfish names of a mode of ours, the preferred one first.
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

// device is the override in our words. No override is the zero Mode: the machine boots in its own
// order. A service that shows no mode (Redfish 1.0) knows UEFI only, as far as we can tell.
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

// bootSettings is where the boot override is changed: the system, or its settings resource.
type bootSettings struct {
	path, etag string
	boot       bootOverride
}

// bootSettingsOf reads the override for the next boot. AMI's BMCs take it at the settings resource
// only, and show it at the system after the next boot; other makers' settings resources have the
// boot order alone.
func (h *redfishHost) bootSettingsOf(ctx context.Context, s *computerSystem) (*bootSettings, error) {
	own := &bootSettings{s.ODataID, s.ETag, s.Boot}
	at := s.Settings.SettingsObject.ID
	if at == "" {
		return own, nil
	}
	future := new(computerSystem)
	a, err := h.c.get(ctx, at, future)
	if statusOf(err) == http.StatusNotFound {
		return own, nil
	}
	if err != nil {
		return nil, err
	}
	if future.Boot.Target == "" && future.Boot.Enabled == "" {
		return own, nil
	}
	later := &bootSettings{at, first(a.header.Get("ETag"), future.ETag), future.Boot}
	if len(later.boot.Targets) == 0 {
		later.boot.Targets = s.Boot.Targets
	}
	if len(later.boot.Enableds) == 0 {
		later.boot.Enableds = s.Boot.Enableds
	}
	if len(later.boot.Modes) == 0 {
		later.boot.Modes = s.Boot.Modes
	}
	return later, nil
}

func (h *redfishHost) boot(ctx context.Context) (providers.BootDevice, error) {
	s, err := h.read(ctx)
	if err != nil {
		return providers.BootDevice{}, err
	}
	at, err := h.bootSettingsOf(ctx, s)
	if err != nil {
		return providers.BootDevice{}, err
	}
	return at.boot.device(), nil
}

// setBoot reads, changes and reads back. It never leaves out what was asked for: a service that
// refuses the mode is not asked without it, unless it is in that mode already.
func (h *redfishHost) setBoot(ctx context.Context, d providers.BootDevice) error {
	prepare := providers.Unhurried(ctx)
	for try := 0; ; try++ {
		s, err := h.known(prepare, bootFresh)
		if err != nil {
			return err
		}
		at, err := h.bootSettingsOf(prepare, s)
		if err != nil {
			return err
		}
		change, err := at.boot.change(d, h.quirksNow())
		if err != nil {
			return err
		}
		match := at.etag
		if try == 2 || h.quirksNow().NoIfMatch { // twice it answered 412 to the ETag that it had just given: that is its own fault
			match = ""
		}
		err = h.patch(ctx, at.path, match, change)
		mode := at.boot.Mode
		if change["BootSourceOverrideMode"] == mode && mode != "" && refusesMode(err) {
			delete(change, "BootSourceOverrideMode") // it is in that mode: nothing is left out
			err = h.patch(ctx, at.path, match, change)
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
	if q.UsbCd && len(names) > 1 {
		names = []string{usbCd, names[0]}
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

// refusesMode reports whether a PATCH may have been refused for the mode in it.
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
	return h.change(ctx, request{method: http.MethodPatch, path: system, body: map[string]any{"Boot": change}, match: match})
}

// change sends a PATCH. A service that wants an If-Match where its ETag is not used gets one that
// any ETag fits.
func (h *redfishHost) change(ctx context.Context, r request) error {
	a, err := h.c.do(ctx, r)
	if statusOf(err) == http.StatusPreconditionRequired && r.match == "" {
		r.match = "*"
		a, err = h.c.do(ctx, r)
	}
	h.follow(a)
	return err
}

// verify reads until what was changed shows, for a while: "OK" is not evidence.
func (h *redfishHost) verify(ctx context.Context, what string, look func(context.Context) (got any, ok bool, err error)) error {
	for end := time.Now().Add(h.c.verify); ; {
		got, ok, err := look(ctx)
		if ok || err != nil {
			return err
		}
		if err := h.failedTask(ctx, what); err != nil {
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
