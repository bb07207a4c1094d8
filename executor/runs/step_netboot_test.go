package runs

import (
	"context"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestNetbootKeepsMode checks that a plan without a boot mode, like the built-in ones, succeeds if
// the machine boots from the right device in its current mode.
func TestNetbootKeepsMode(t *testing.T) {
	t.Parallel()
	boots := func(step *holdfastv1.SetNetboot, params map[string]string, now providers.BootDevice) string {
		l := newLab(t, fake.Config{})
		p := bootsAs{fake.New(l.Fleet), make(chan providers.BootDevice, 10), now}
		l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
		l.Machine("m-1")
		l.Plan("p", &holdfastv1.Step{Name: "s", TimeoutSeconds: 60, Kind: &holdfastv1.Step_Netboot{Netboot: step}})
		l.lead(quick())
		l.Ended(l.Start("m-1", "", "p", params).GetRunId())
		select {
		case d := <-p.asked:
			if d.UEFI {
				return "set uefi"
			}
			return "set bios"
		default:
		}
		return "nothing set"
	}
	pxe := func(uefi bool) providers.BootDevice { return providers.BootDevice{Mode: "PXE", UEFI: uefi} }
	for name, tt := range map[string]struct {
		step   *holdfastv1.SetNetboot
		params map[string]string
		now    providers.BootDevice
		want   string
	}{
		"UEFI unchanged": {&holdfastv1.SetNetboot{Mode: "PXE"}, nil, pxe(true), "nothing set"},
		"BIOS unchanged": {&holdfastv1.SetNetboot{Mode: "PXE"}, nil, pxe(false), "nothing set"},
		"UEFI, from its disk": {&holdfastv1.SetNetboot{Mode: "PXE"}, nil,
			providers.BootDevice{Mode: "DISK", UEFI: true}, "set uefi"},
		"BIOS, from its disk": {&holdfastv1.SetNetboot{Mode: "PXE"}, nil, providers.BootDevice{Mode: "DISK"},
			"set bios"},
		"not shown": {&holdfastv1.SetNetboot{Mode: "PXE"}, nil, providers.BootDevice{ModeHidden: true},
			"set uefi"},
		"BIOS in the step": {&holdfastv1.SetNetboot{Mode: "PXE", BootMode: "bios"}, nil, pxe(true), "set bios"},
		"UEFI in the step": {&holdfastv1.SetNetboot{Mode: "PXE", Uefi: true}, nil, pxe(false), "set uefi"},
		"BIOS in the run": {&holdfastv1.SetNetboot{Mode: "PXE"}, map[string]string{"boot_mode": "bios"},
			pxe(true), "set bios"},
		"UEFI in the run, old parameter": {&holdfastv1.SetNetboot{Mode: "PXE"}, map[string]string{"uefi": "true"}, pxe(false),
			"set uefi"},
		"HTTP": {&holdfastv1.SetNetboot{Mode: "HTTP"}, nil, pxe(false), "set uefi"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := boots(tt.step, tt.params, tt.now); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// bootsAs is a fleet whose machines report a boot device until another one is set.
type bootsAs struct {
	*fake.Provider
	asked chan providers.BootDevice
	now   providers.BootDevice
}

func (p bootsAs) BootDevice(ctx context.Context, m providers.Machine) (providers.BootDevice, error) {
	if len(p.asked) > 0 {
		return p.Provider.BootDevice(ctx, m)
	}
	return p.now, nil
}

func (p bootsAs) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	err := p.Provider.SetBootDevice(ctx, op, m, d)
	p.asked <- d
	return err
}
