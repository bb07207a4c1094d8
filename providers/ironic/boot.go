package ironic

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// devices returns Ironic's names of boot devices (ironic.common.boot_devices).
func devices() map[string]string {
	return map[string]string{"PXE": "pxe", "DISK": "disk", "VIRTUAL_MEDIA": "cdrom", "HTTP": "uefihttp"}
}

// BootDevice reads the boot device from Ironic, which reads it from the BMC. The Mode is empty for
// a device that has no mode here.
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

// SetBootDevice sets the device and reads it back. The boot mode of a node, UEFI or BIOS, is a
// property in Ironic that is not changed here.
func (p *Provider) SetBootDevice(
	ctx context.Context, _ providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	op := "set the boot device of " + m.GetMachineId()
	name, ok := devices()[d.Mode]
	if !ok {
		return providers.Errorf(providers.Unsupported, op, "unknown boot mode %q", d.Mode)
	}
	return p.call(ctx, m, "set the boot device", true, func(ctx context.Context, s *session, id string) error {
		n, err := p.known(ctx, s, id)
		if err != nil {
			return err
		}
		if uefi, known := n.uefi(); known && uefi != d.UEFI {
			return providers.Errorf(providers.Unsupported, op,
				"the node boots by UEFI: %v, and the step wants %v: change one of them", uefi, d.UEFI)
		}
		o := nodes.BootDeviceOpts{BootDevice: name, Persistent: d.Persistent}
		if err := nodes.SetBootDevice(ctx, s.ServiceClient, id, o).ExtractErr(); err != nil {
			return err
		}
		got, err := p.bootDevice(providers.Unhurried(ctx), s, id)
		if err == nil && (got.Mode != d.Mode || got.Persistent != d.Persistent) {
			err = providers.Errorf(providers.Transient, op,
				"accepted by Ironic, but it reads back as %s (persistent: %v)", clip(got.Mode), got.Persistent)
		}
		return err
	})
}
