package ironic

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// devices are Ironic's names of what a machine boots from (ironic.common.boot_devices).
func devices() map[string]string {
	return map[string]string{"PXE": "pxe", "DISK": "disk", "VIRTUAL_MEDIA": "cdrom", "HTTP": "uefihttp"}
}

// BootDevice asks Ironic, which asks the BMC. Of a device that has no name here the Mode is empty.
func (p *Provider) BootDevice(ctx context.Context, m providers.Machine) (d providers.BootDevice, err error) {
	err = p.call(ctx, m, "read the boot device", false, func(ctx context.Context, s *session, id string) error {
		d, err = p.bootDevice(ctx, s, id)
		return err
	})
	return d, err
}

func (p *Provider) bootDevice(ctx context.Context, s *session, id string) (d providers.BootDevice, err error) {
	n, err := p.known(ctx, s, id)
	if err != nil {
		return d, err
	}
	got, err := nodes.GetBootDevice(ctx, s.ServiceClient, id).Extract()
	if err != nil {
		return d, err
	}
	for mode, name := range devices() {
		if got.BootDevice == name {
			d.Mode = mode
		}
	}
	d.Persistent, d.UEFI = got.Persistent, p.uefi(n)
	return d, nil
}

func (p *Provider) uefi(n *node) bool {
	uefi, known := n.uefi()
	return uefi || !known && !p.cfg.BIOS
}

// SetBootDevice sets the device and reads it back. How a node boots, UEFI or BIOS, is a property of
// it in Ironic that is not changed here.
func (p *Provider) SetBootDevice(ctx context.Context, _ providers.Op, m providers.Machine, d providers.BootDevice) error {
	name, ok := devices()[d.Mode]
	if !ok {
		return providers.Errorf(providers.Unsupported, "set the boot device of "+m.GetMachineId(), "there is no boot mode %q", d.Mode)
	}
	return p.call(ctx, m, "set the boot device", true, func(ctx context.Context, s *session, id string) error {
		n, err := p.known(ctx, s, id)
		if err != nil {
			return err
		}
		if uefi, known := n.uefi(); known && uefi != d.UEFI {
			return providers.Errorf(providers.Unsupported, "set the boot device of "+m.GetMachineId(),
				"the node boots by UEFI: %v, and the step wants %v: change one of them", uefi, d.UEFI)
		}
		if err := nodes.SetBootDevice(ctx, s.ServiceClient, id, nodes.BootDeviceOpts{BootDevice: name, Persistent: d.Persistent}).ExtractErr(); err != nil {
			return err
		}
		got, err := p.bootDevice(providers.Unhurried(ctx), s, id)
		if err == nil && (got.Mode != d.Mode || got.Persistent != d.Persistent) {
			err = providers.Errorf(providers.Transient, "set the boot device of "+m.GetMachineId(), "%w", fmt.Errorf(
				"it was taken by Ironic, and it reads back as %s (persistent: %v)", clip(got.Mode), got.Persistent))
		}
		return err
	})
}
