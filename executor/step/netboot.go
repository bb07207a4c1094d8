package step

import (
	"context"
	"strconv"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// netboot reads the next boot device, sets it if it differs, and reads it back. This is
// idempotent, so a new leader does the same. The boot mode is only changed if the step
// asks for it.
func (a *Attempt) netboot(boot providers.BootController, s *holdfastv1.SetNetboot) Action {
	want := providers.BootDevice{Mode: s.GetMode(), Persistent: a.flag(s.GetPersistent(), "persistent")}
	mode := a.param(s.GetBootMode(), "boot_mode")
	if a.flag(s.GetUefi(), "uefi") {
		mode = providers.BootUEFI
	}
	var chosen bool // want contains the boot mode that was read before the first effect
	isSet := func(ctx context.Context) (bool, error) {
		got, err := boot.BootDevice(ctx, a.Machine)
		if err != nil {
			return false, err
		}
		if !chosen {
			want, chosen = want.InMode(mode, got, a.Machine), true
		}
		if got != want {
			return false, nil
		}
		a.AddEvidence(bootEvidence(got))
		a.Message = "next boot from " + got.Mode
		return true, nil
	}
	return Action{
		Reads: "boot device",
		Before: func(ctx context.Context) (map[string]string, error) {
			got, err := boot.BootDevice(ctx, a.Machine)
			return bootEvidence(got), err
		},
		Do: func(ctx context.Context) error {
			if set, err := isSet(ctx); err != nil || set {
				return err
			}
			err := a.Effect(ctx, "boot from "+want.Mode, func(ctx context.Context) error {
				return boot.SetBootDevice(ctx, a.Op, a.Machine, want)
			})
			if err != nil {
				return err
			}
			return a.Poll(ctx, effect("boot device", want.Mode), isSet)
		},
	}
}

func bootEvidence(d providers.BootDevice) map[string]string {
	return map[string]string{
		"boot_device": d.Mode,
		"persistent":  strconv.FormatBool(d.Persistent),
		"uefi":        strconv.FormatBool(d.UEFI),
	}
}
