package ipmi

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Power reads the power state, which ipmitool prints in words.
func (h *Host) Power(ctx context.Context) (providers.PowerState, error) {
	out, err := h.run(ctx, false, "chassis", "power", "status")
	if err != nil {
		return providers.PowerUnknown, err
	}
	return parsePower(out), nil
}

func parsePower(out string) providers.PowerState {
	for line := range strings.Lines(out) {
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "chassis power is on":
			return providers.PowerOn
		case "chassis power is off":
			return providers.PowerOff
		}
	}
	return providers.PowerUnknown
}

// SetPower presses the button, with one command.
func (h *Host) SetPower(ctx context.Context, a providers.PowerAction) error {
	word, want := "", providers.PowerOff
	switch a {
	case providers.ActionOn:
		word, want = "on", providers.PowerOn
	case providers.ActionHardOff:
		word = "off"
	case providers.ActionSoftOff:
		word = "soft"
	default:
		return access.UnknownAction(a)
	}
	_, err := h.run(ctx, true, "chassis", "power", word)
	// Some BMCs refuse a press that changes nothing ("not supported in present state").
	refusal := false
	if err != nil && !access.Silent(err) {
		class := providers.ClassOf(err)
		refusal = class == providers.Transient || class == providers.Unsupported
	}
	if refusal {
		if is, rerr := h.Power(providers.Unhurried(ctx)); rerr == nil && is == want {
			return nil
		}
	}
	return err
}

// The boot flags of IPMI 2.0 §28.13, table 28-14, parameter 5.
const (
	flagValid      = 0x80
	flagPersistent = 0x40
	flagEFI        = 0x20
)

// selectors returns the device selectors of the same table, bits 5:2 of the second byte.
func selectors() map[byte]string {
	return map[byte]string{1: "PXE", 2: "DISK", 5: "VIRTUAL_MEDIA", 8: "VIRTUAL_MEDIA"}
}

// parseBootFlags parses the output of `chassis bootparam get 5`.
func parseBootFlags(out string, q access.Quirks) (providers.BootDevice, error) {
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Boot parameter data:")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(strings.TrimSpace(rest))
		if err != nil || len(b) < 2 {
			break
		}
		d := providers.BootDevice{UEFI: b[0]&flagEFI != 0}
		if b[0]&flagValid == 0 && !q.SelectorOnly {
			return providers.BootDevice{ModeHidden: true}, nil
		}
		d.Mode = selectors()[b[1]>>2&0x0f]
		d.ModeHidden = d.Mode == "" && !d.UEFI // the flag is for a device that was never set
		d.Persistent = d.Mode != "" && b[0]&flagPersistent != 0
		return d, nil
	}
	return providers.BootDevice{}, access.Disagree(
		"no boot flags in the output of ipmitool: %s", text.Clip(out, access.MaxText))
}

// Boot reads the boot flags.
func (h *Host) Boot(ctx context.Context) (providers.BootDevice, error) {
	out, err := h.run(ctx, false, "chassis", "bootparam", "get", "5")
	if err != nil {
		return providers.BootDevice{}, err
	}
	return parseBootFlags(out, h.quirksNow())
}

// SetBoot sets the flags and reads them back.
func (h *Host) SetBoot(ctx context.Context, d providers.BootDevice) error {
	args := []string{"chassis", "bootdev"}
	switch d.Mode {
	case "PXE":
		args = append(args, "pxe")
	case "DISK":
		args = append(args, "disk")
	case "VIRTUAL_MEDIA":
		args = append(args, "cdrom")
	default:
		return providers.Errorf(providers.Unsupported, "set the boot device",
			"IPMI has no boot mode %q; it has PXE, DISK, VIRTUAL_MEDIA", text.Clip(d.Mode, 40))
	}
	var options []string
	if d.Persistent {
		options = append(options, "persistent")
	}
	if d.UEFI {
		options = append(options, "efiboot")
	}
	if len(options) > 0 {
		args = append(args, "options="+strings.Join(options, ","))
	}
	h.keepFlags(providers.Unhurried(ctx))
	if _, err := h.run(ctx, true, args...); err != nil {
		return err
	}
	got, err := h.Boot(providers.Unhurried(ctx))
	if err != nil {
		return err
	}
	if !keptBoot(d, got, h.quirksNow()) {
		return access.Disagree("the BMC accepted the boot device, but it reads back as %+v", got)
	}
	return nil
}

// keptBoot reports whether the BMC shows the boot device that was set. Some BMCs, among them
// Supermicro's, always show the EFI bit as 0: their firmware only has UEFI, or has consumed the
// bit. A bit that was not set must not be there.
func keptBoot(want, got providers.BootDevice, q access.Quirks) bool {
	if q.SelectorOnly {
		return got.Mode == want.Mode
	}
	got.UEFI = got.UEFI || want.UEFI
	return got == want
}

// keptFor is how long the BMC is not asked again to keep the boot flags.
const keptFor = 30 * time.Second

// keepFlags makes the BMC keep the boot flags for longer than a minute (IPMI 2.0 table 28-14,
// parameter 3, bit 3). The other bits would keep them through presses of the button, resets and
// watchdogs, and a machine would boot a second time from a one-time device. Errors are ignored,
// because some BMCs do not support it. It is no effect: nothing boots by it.
func (h *Host) keepFlags(ctx context.Context) {
	h.mu.Lock()
	wanted := h.quirks.BootFlagsExpire && time.Since(h.kept) > keptFor
	if wanted {
		h.kept = time.Now()
	}
	h.mu.Unlock()
	if wanted {
		_, _ = h.run(ctx, false, "raw", "0x00", "0x08", "0x03", "0x08")
	}
}
