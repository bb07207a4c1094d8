package executor

import (
	"context"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// firmware shows a boot device, and no effect.
type firmware struct {
	providers.BootController
	now providers.BootDevice
}

func (f firmware) BootDevice(context.Context, providers.Machine) (providers.BootDevice, error) {
	return f.now, nil
}

// A plan that names no boot mode, as the built-in ones, accepts the mode that the machine has.
func TestNetbootKeepsMode(t *testing.T) {
	for _, uefi := range []bool{true, false} {
		a := &attempt{runner: &runner{run: &holdfastv1.Run{}}, machine: &holdfastv1.Machine{MachineId: "m-1"}}
		f := firmware{now: providers.BootDevice{Mode: "PXE", UEFI: uefi}}
		if err := a.netboot(f, &holdfastv1.SetNetboot{Mode: "PXE"}).do(t.Context()); err != nil {
			t.Errorf("UEFI %v: %v", uefi, err)
		}
	}
}
