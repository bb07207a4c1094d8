package redfish

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// bootFresh is how long the data for a change of the boot device, such as the ETag, may be reused.
// verifyPoll is the interval of polls for the change.
const (
	bootFresh  = 30 * time.Second
	verifyPoll = 100 * time.Millisecond
)

// Boot targets (ComputerSystem schema). Supermicro's X10 has no boot mode, and targets for UEFI
// beside those for legacy boot.
const (
	targetNone = "None"
	targetPxe  = "Pxe"
	targetHTTP = "UefiHttp"
	targetHdd  = "Hdd"
	targetCd   = "Cd"
	usbCd      = "UsbCd"
	uefiHdd    = "UefiHdd"
	uefiCd     = "UefiCd"
	uefiUsbCd  = "UefiUsbCd"
)

// Values of BootSourceOverrideEnabled and BootSourceOverrideMode.
const (
	bootDisabled   = "Disabled"
	bootOnce       = "Once"
	bootContinuous = "Continuous"
	modeUEFI       = "UEFI"
	modeLegacy     = "Legacy"
)

// uefiTargets returns the targets for UEFI of those that also boot in legacy mode.
func uefiTargets() map[string]string {
	return map[string]string{
		targetHdd: uefiHdd,
		targetCd:  uefiCd,
		usbCd:     uefiUsbCd,
	}
}

// inMode returns names with the targets for the mode. legacy reports whether the service has
// targets for UEFI beside them, so that the others boot in legacy mode.
func (b bootOverride) inMode(names []string, uefi bool) (targets []string, legacy bool) {
	if b.Mode != "" {
		return names, false
	}
	for _, n := range names {
		target := uefiTargets()[n]
		if target != "" && hasWord(b.Targets, target) {
			targets, legacy = append(targets, target), true
		}
	}
	if !uefi {
		return names, legacy
	}
	return append(targets, names...), legacy
}

// bootTarget returns the target of an override. "None" is one, and no placeholder.
func bootTarget(b loose.Object) string {
	const name = "BootSourceOverrideTarget"
	if loose.SameWord(b.Text(name), targetNone) {
		return targetNone
	}
	return b.Word(name, targetPxe, targetHTTP, targetHdd, targetCd, usbCd, uefiHdd, uefiCd, uefiUsbCd)
}

// hasWord reports whether a list has a word in any spelling.
func hasWord(list []string, word string) bool {
	return slices.ContainsFunc(list, func(w string) bool { return loose.SameWord(w, word) })
}

// targetsOf returns the Redfish targets of a boot mode, the preferred one first.
func targetsOf(mode string) []string {
	switch mode {
	case "PXE":
		return []string{targetPxe}
	case "HTTP":
		return []string{targetHTTP}
	case "DISK":
		return []string{targetHdd}
	case "VIRTUAL_MEDIA":
		return []string{targetCd, usbCd}
	}
	return nil
}

// device converts the override. Without an override the Mode is empty: the machine boots in its own
// order. A service that shows no mode (Redfish 1.0) presumably only knows UEFI.
//
// Without a mode, the target has it, if there are targets for both.
func (b bootOverride) device() providers.BootDevice {
	d := providers.BootDevice{UEFI: b.Mode != modeLegacy}
	for target, uefi := range uefiTargets() {
		if b.Mode == "" && b.Target == target && hasWord(b.Targets, uefi) {
			d.UEFI = false
		}
	}
	if b.Enabled == bootDisabled || b.Enabled == "" {
		return d
	}
	d.Persistent = b.Enabled == bootContinuous
	switch b.Target {
	case targetPxe:
		d.Mode = "PXE"
	case targetHTTP:
		d.Mode = "HTTP"
	case targetHdd, uefiHdd:
		d.Mode = "DISK"
	case targetCd, usbCd, uefiCd, uefiUsbCd:
		d.Mode = "VIRTUAL_MEDIA"
	case targetNone:
		d.Persistent = false
	default:
		d.Mode = b.Target // a target without a mode of ours
	}
	return d
}

// bootSettings is the resource at which the boot override is changed: the system, or its settings.
type bootSettings struct {
	path, etag string
	boot       bootOverride
}

// bootSettingsOf reads the override for the next boot. AMI's BMCs accept it only at the settings
// resource, and show it at the system after the next boot. The settings resources of other vendors
// only have the boot order.
func (h *Host) bootSettingsOf(ctx context.Context, s *computerSystem) (*bootSettings, error) {
	own := &bootSettings{s.ODataID, s.ETag, s.Boot}
	at := s.Settings.SettingsObject.ID
	if at == "" {
		return own, nil
	}
	r, err := h.c.read(ctx, at)
	if statusOf(err) == http.StatusNotFound {
		return own, nil
	}
	if err != nil {
		return nil, err
	}
	future := systemOf(r)
	if future.Boot.Target == "" && future.Boot.Enabled == "" {
		return own, nil
	}
	later := &bootSettings{at, r.etag, future.Boot}
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

// Boot reads the override for the next boot. Without an override its Mode is empty.
func (h *Host) Boot(ctx context.Context) (providers.BootDevice, error) {
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

// SetBoot reads the override, changes it and verifies it. It never drops a requested property: if a
// service refuses the mode, the request is repeated without it only if the mode is already set.
func (h *Host) SetBoot(ctx context.Context, d providers.BootDevice) error {
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
		if try == 2 || h.quirksNow().NoIfMatch { // two 412s for a fresh ETag are the service's fault
			match = ""
		}
		body := map[string]any{"Boot": change}
		r := request{method: http.MethodPatch, path: at.path, body: body, match: match}
		err = h.change(ctx, r)
		mode := at.boot.Mode
		if mode != "" && loose.SameWord(change["BootSourceOverrideMode"], mode) && refusesMode(err) {
			delete(change, "BootSourceOverrideMode") // already in that mode
			err = h.change(ctx, r)
		}
		if providers.ClassOf(err) == providers.Late {
			return err // keep the data, so that the next call is in time
		}
		h.stale()
		if statusOf(err) == http.StatusPreconditionFailed && try < 2 {
			continue // somebody changed the system since it was read; our change was not applied
		}
		if err != nil {
			return err
		}
		return h.verify(prepare, "boot device", func(ctx context.Context) (any, bool, error) {
			got, err := h.Boot(ctx)
			return got, got == d, err
		})
	}
}

// change returns the body of a PATCH that turns b into d.
func (b bootOverride) change(d providers.BootDevice, q access.Quirks) (map[string]string, error) {
	const what = "set the boot device"
	names := targetsOf(d.Mode)
	if names == nil {
		return nil, providers.Errorf(providers.Unsupported, what,
			"mode %q is not one of PXE, HTTP, DISK, VIRTUAL_MEDIA", text.Clip(d.Mode, 40))
	}
	if q.UsbCd && len(names) > 1 {
		names = []string{usbCd, names[0]}
	}
	if b.Target == "" && b.Enabled == "" && len(b.Targets) == 0 {
		return nil, providers.Errorf(providers.Unsupported, what, "the BMC has no override of the boot device")
	}
	names, legacy := b.inMode(names, d.UEFI)
	target, err := pick(what, b.Targets, names...)
	if err != nil {
		return nil, err
	}
	enabled := bootOnce
	if d.Persistent {
		enabled = bootContinuous
	}
	if enabled, err = pick(what, b.Enableds, enabled); err != nil {
		return nil, err
	}
	mode := modeLegacy
	if d.UEFI {
		mode = modeUEFI
	}
	if mode, err = pick(what, b.Modes, mode); err != nil {
		return nil, err
	}
	change := map[string]string{"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
	switch {
	case b.Mode == "" && !d.UEFI && !legacy:
		return nil, providers.Errorf(providers.Unsupported, what,
			"the BMC has no setting for the boot mode, so legacy boot cannot be requested")
	case b.Mode == "":
	case !loose.SameWord(b.Mode, mode) || !q.OmitSameBootMode:
		change["BootSourceOverrideMode"] = mode
	}
	return change, nil
}

// refusesMode reports whether a PATCH may have been refused because of its mode.
func refusesMode(err error) bool {
	switch statusOf(err) {
	case http.StatusBadRequest,
		http.StatusForbidden,
		http.StatusMethodNotAllowed,
		http.StatusConflict,
		http.StatusUnprocessableEntity,
		http.StatusInternalServerError,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// change sends a request whose result verify polls for. If the service requires an If-Match for a
// PATCH and none was sent, change repeats it with one that matches any ETag.
func (h *Host) change(ctx context.Context, r request) error {
	a, err := h.c.do(ctx, r)
	if statusOf(err) == http.StatusPreconditionRequired && r.method == http.MethodPatch && r.match == "" {
		r.match = "*"
		a, err = h.c.do(ctx, r)
	}
	h.follow(a)
	return err
}

// verify polls for a while until a change shows: an "OK" is not evidence.
func (h *Host) verify(
	ctx context.Context,
	what string,
	read func(context.Context) (got any, ok bool, err error),
) error {
	for end := time.Now().Add(h.c.cfg.Verify); ; {
		got, ok, err := read(ctx)
		if ok || err != nil {
			return err
		}
		if err := h.failedTask(ctx, what); err != nil {
			return err
		}
		if time.Now().After(end) {
			return access.Disagree("the BMC accepted the %s, but it reads back as %+v after %v",
				what, got, h.c.cfg.Verify)
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
