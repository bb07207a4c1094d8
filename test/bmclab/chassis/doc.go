// Package chassis is a machine for tests: a real one, in QEMU, whose power, boot device and virtual
// drive belong to a chassis that several BMCs may share. Emulation only (TCG): no KVM.
//
// It owns the QEMU process, and keeps count: Effects is what the BMCs had done, in order, whatever
// they have answered. It is asked over a unix socket (Serve, Client), because BMCs are processes of
// their own. It must not know Holdfast, nor how a BMC is spoken to.
package chassis
