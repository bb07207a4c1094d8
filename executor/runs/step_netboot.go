package runs

import (
	"context"
	"strconv"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// netboot reads the next boot device, sets it if it differs, and reads it back. This is
// idempotent, so a new leader does the same. The boot mode is only changed if the step
// asks for it.
func (a *attempt) netboot(boot providers.BootController, s *holdfastv1.SetNetboot) action {
	want := providers.BootDevice{Mode: s.GetMode(), Persistent: a.flag(s.GetPersistent(), "persistent")}
	mode := a.param(s.GetBootMode(), "boot_mode")
	if a.flag(s.GetUefi(), "uefi") {
		mode = providers.BootUEFI
	}
	var chosen bool // want contains the boot mode that was read before the first effect
	isSet := func(ctx context.Context) (bool, error) {
		got, err := boot.BootDevice(ctx, a.machine)
		if err != nil {
			return false, err
		}
		if !chosen {
			want, chosen = want.InMode(mode, got, a.machine), true
		}
		if got != want {
			return false, nil
		}
		a.prove(bootProof(got))
		a.message = "next boot from " + got.Mode
		return true, nil
	}
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			got, err := boot.BootDevice(ctx, a.machine)
			return bootProof(got), err
		},
		do: func(ctx context.Context) error {
			if set, err := isSet(ctx); err != nil || set {
				return err
			}
			err := a.effect(ctx, "boot from "+want.Mode, func(ctx context.Context) error {
				return boot.SetBootDevice(ctx, a.op, a.machine, want)
			})
			if err != nil {
				return err
			}
			return a.poll(ctx, "the boot device to read back as "+want.Mode, isSet)
		},
	}
}

func bootProof(d providers.BootDevice) map[string]string {
	return map[string]string{
		"boot_device": d.Mode,
		"persistent":  strconv.FormatBool(d.Persistent),
		"uefi":        strconv.FormatBool(d.UEFI),
	}
}

// installerBooter is implemented by providers whose installer does not answer while it
// runs: the only evidence of a reboot into it is that the power is on.
type installerBooter interface{ BootsInstaller() bool }

// bootsInstaller reports whether the attempt boots the machine into the installer of one
// of the next steps.
func (a *attempt) bootsInstaller() bool {
	if p, ok := a.provider.(installerBooter); !ok || !p.BootsInstaller() {
		return false
	}
	at := false
	for _, s := range a.run.GetSteps() {
		switch {
		case s.GetName() == a.step.GetName():
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
